<?php
// client.php BASE CONTROL DIR CASE...: see clients_test.go for what each case does and prints.
[, $base, $control, $dir] = $argv;
$own = 'Authorization: Bearer the-clients-own';
$api = curl_init(); // one handle keeps its connection

/** One request; $head and $body are called with what comes, as it comes. */
function send(string $path, array $options = [], ?callable $head = null, ?callable $body = null): int
{
    global $api, $base;
    curl_reset($api);
    curl_setopt_array($api, $options + [
        CURLOPT_URL => $base . $path,
        CURLOPT_SUPPRESS_CONNECT_HEADERS => true,
        CURLOPT_HEADERFUNCTION => function ($_, $line) use ($head) { $head && $head($line); return strlen($line); },
        CURLOPT_WRITEFUNCTION => function ($_, $part) use ($body) { $body && $body($part); return strlen($part); },
    ]);
    if (!curl_exec($api)) {
        throw new RuntimeException(curl_error($api));
    }
    return curl_getinfo($api, CURLINFO_RESPONSE_CODE);
}

function call(string $path, array $headers = [], ?string $data = null): void
{
    $options = [CURLOPT_HTTPHEADER => $headers];
    if ($data !== null) {
        $options += [CURLOPT_POST => true, CURLOPT_POSTFIELDS => $data];
    }
    [$digest, $size, $lines] = [hash_init('sha256'), 0, []];
    $status = send($path, $options, function ($line) use (&$lines) {
        if (str_starts_with($line, 'HTTP/')) {
            $lines = [];
        } elseif (str_contains($line, ':')) {
            [$name, $value] = explode(':', trim($line), 2);
            $lines[] = 'header ' . strtolower($name) . ' ' . ltrim($value);
        }
    }, function ($part) use ($digest, &$size) { hash_update($digest, $part); $size += strlen($part); });
    echo "status $status\n", implode("\n", $lines), "\nsize $size\nsha256 ", hash_final($digest), "\n";
}

function reuse(): void
{
    $ok = 0;
    for ($n = 1; $n <= 100; $n++) {
        $ok += send("/items/$n/notes/n") === 200;
    }
    echo "ok $ok\n"; // the upstream counts the connections
}

function stream(string $control): void
{
    $text = '';
    send('/stream', [CURLOPT_HTTPHEADER => ['Accept: text/event-stream']], null, function ($part) use (&$text, $control) {
        $text .= $part;
        while (($end = strpos($text, "\n")) !== false) {
            $line = substr($text, 0, $end);
            $text = substr($text, $end + 1);
            if (str_starts_with($line, 'data: ')) {
                $n = substr($line, 6);
                echo "event $n\n";
                file_get_contents("$control/ack?n=$n");
            }
        }
    });
}

$cases = [
    'get' => fn () => call('/items/42/notes/a%20b?tag=x&tag=y&q=a+b', [$own, 'Accept: application/json', 'X-Trace: t-1', 'Accept-Encoding: gzip']),
    'hop' => fn () => call('/items/7/notes/hop', ['Connection: keep-alive, X-Hop', 'X-Hop: 1', 'Keep-Alive: timeout=5']),
    'json' => fn () => call('/items', [$own, 'Content-Type: application/json'], '{"name":"é","n":1.0}'),
    'form' => fn () => call('/forms', [], 'a=1&b=two+words&a=3'),
    'missing' => fn () => call('/status/404'),
    'broken' => fn () => call('/status/500'),
    'reply' => fn () => call('/reply', ['Accept-Encoding: gzip']),
    'down' => fn () => call('/blob'),
    'up' => fn () => call('/blob', ['Content-Type: application/octet-stream'], file_get_contents("$dir/up.bin")),
    'reuse' => fn () => reuse(),
    'stream' => fn () => stream($control),
];
foreach (array_slice($argv, 4) as $name) {
    echo "== $name\n";
    $cases[$name]();
}
