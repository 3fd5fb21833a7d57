# client.rb BASE CONTROL DIR CASE...: see clients_test.go for what each case does and prints.
require 'digest'
require 'net/http'

base, control, dir = ARGV.shift(3)
OWN = 'Bearer the-clients-own'
BASE = URI(base)

$made = 0
TCPSocket.singleton_class.prepend(Module.new { def open(*) = ($made += 1) && super })

# One object keeps its connection from start to finish.
API = Net::HTTP.new(BASE.host, BASE.port)
API.use_ssl = true
API.start

def send(type, path, headers = {}, body = nil, &block)
  request = type.new(path, headers)
  request.body = body
  API.request(request, &block)
end

def call(*what)
  send(*what) do |answer|
    puts "status #{answer.code}"
    answer.each_header { |name, _| answer.get_fields(name).each { |value| puts "header #{name} #{value}" } }
    digest, size = Digest::SHA256.new, 0
    answer.read_body { |part| digest << part; size += part.bytesize }
    puts "size #{size}", "sha256 #{digest}"
  end
end

def reuse
  before, ok = $made, 0
  (1..100).each { |n| ok += 1 if send(Net::HTTP::Get, "/items/#{n}/notes/n").code == '200' }
  puts "ok #{ok}", "connections #{$made - before}"
end

def stream(control)
  text = +''
  send(Net::HTTP::Get, '/stream', { 'Accept' => 'text/event-stream' }) do |answer|
    answer.read_body do |part|
      text << part
      while (line = text.slice!(/\A.*\n/))
        next unless (n = line[/\Adata: (.*)/, 1])
        puts "event #{n}"
        Net::HTTP.get(URI("#{control}/ack?n=#{n}"))
      end
    end
  end
end

CASES = {
  'get' => -> { call(Net::HTTP::Get, '/items/42/notes/a%20b?tag=x&tag=y&q=a+b', { 'Authorization' => OWN, 'Accept' => 'application/json', 'X-Trace' => 't-1', 'Accept-Encoding' => 'gzip' }) },
  'hop' => -> { call(Net::HTTP::Get, '/items/7/notes/hop', { 'Connection' => 'keep-alive, X-Hop', 'X-Hop' => '1', 'Keep-Alive' => 'timeout=5' }) },
  'json' => -> { call(Net::HTTP::Post, '/items', { 'Authorization' => OWN, 'Content-Type' => 'application/json' }, '{"name":"é","n":1.0}') },
  'form' => -> { call(Net::HTTP::Post, '/forms', { 'Content-Type' => 'application/x-www-form-urlencoded' }, 'a=1&b=two+words&a=3') },
  'missing' => -> { call(Net::HTTP::Get, '/status/404') },
  'broken' => -> { call(Net::HTTP::Get, '/status/500') },
  'reply' => -> { call(Net::HTTP::Get, '/reply', { 'Accept-Encoding' => 'gzip' }) },
  'down' => -> { call(Net::HTTP::Get, '/blob') },
  'up' => -> { call(Net::HTTP::Post, '/blob', { 'Content-Type' => 'application/octet-stream' }, File.binread("#{dir}/up.bin")) },
  'reuse' => -> { reuse },
  'stream' => -> { stream(control) },
}.freeze
ARGV.each do |name|
  puts "== #{name}"
  CASES.fetch(name).call
end
