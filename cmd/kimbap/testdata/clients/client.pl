# client.pl BASE CONTROL DIR CASE...: see clients_test.go for what each case does and prints.
use strict;
use warnings;
use Digest::SHA;
use LWP::UserAgent;
$| = 1;
binmode STDOUT;

my ($base, $control, $dir) = splice @ARGV, 0, 3;
my @own = (Authorization => 'Bearer the-clients-own');
my $api = LWP::UserAgent->new(keep_alive => 1); # as most programs make it: without env_proxy
my $ack = LWP::UserAgent->new;

sub ask {
    my ($method, $path, $header, $body, $part) = @_;
    my $answer = $api->request(HTTP::Request->new($method, $base . $path, $header, $body), $part && sub { $part->($_[0]) }, 4096);
    die $answer->status_line, "\n" if $answer->header('Client-Warning') || $answer->header('X-Died');
    return $answer;
}

sub call {
    my ($digest, $size) = (Digest::SHA->new(256), 0);
    my $answer = ask(@_[0 .. 3], sub { $digest->add($_[0]); $size += length $_[0] });
    unless ($answer->is_success) { # its body is kept, not handed on
        $digest->add($answer->content);
        $size = length $answer->content;
    }
    print 'status ', $answer->code, "\n";
    $answer->headers->scan(sub { print 'header ', lc $_[0], " $_[1]\n" unless $_[0] =~ /^client-/i });
    print "size $size\nsha256 ", $digest->hexdigest, "\n";
}

sub reuse {
    my $ok = grep { ask('GET', "/items/$_/notes/n")->code == 200 } 1 .. 100;
    print "ok $ok\n"; # the upstream counts the connections
}

sub stream {
    my $text = '';
    ask('GET', '/stream', [Accept => 'text/event-stream'], undef, sub {
        $text .= $_[0];
        while ($text =~ s/^(.*)\n//) {
            next unless $1 =~ /^data: (.*)/;
            print "event $1\n";
            $ack->get("$control/ack?n=$1");
        }
    });
}

sub upload {
    open my $file, '<:raw', "$dir/up.bin" or die $!;
    local $/;
    return <$file>;
}

my %cases = (
    get => sub { call('GET', '/items/42/notes/a%20b?tag=x&tag=y&q=a+b', [@own, Accept => 'application/json', 'X-Trace' => 't-1', 'Accept-Encoding' => 'gzip']) },
    json => sub { call('POST', '/items', [@own, 'Content-Type' => 'application/json'], "{\"name\":\"\xc3\xa9\",\"n\":1.0}") },
    form => sub { call('POST', '/forms', ['Content-Type' => 'application/x-www-form-urlencoded'], 'a=1&b=two+words&a=3') },
    missing => sub { call('GET', '/status/404') },
    broken => sub { call('GET', '/status/500') },
    reply => sub { call('GET', '/reply', ['Accept-Encoding' => 'gzip']) },
    down => sub { call('GET', '/blob') },
    up => sub { call('POST', '/blob', ['Content-Type' => 'application/octet-stream'], upload()) },
    reuse => \&reuse,
    stream => sub { stream() },
);
for my $name (@ARGV) {
    print "== $name\n";
    $cases{$name}->();
}
