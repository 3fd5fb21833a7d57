// Client.java http|url BASE CONTROL DIR CASE...: see clients_test.go for what
// each case does and prints. http is java.net.http.HttpClient, url is
// HttpsURLConnection.
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

public class Client {
    record Answer(int status, Map<String, List<String>> headers, InputStream body) {}

    interface Library {
        Answer send(String method, String url, byte[] body, String... headers) throws Exception;
    }

    static final String[] OWN = {"Authorization", "Bearer the-clients-own"};
    static final String FORM = "application/x-www-form-urlencoded";

    static String base, control, dir;
    static Library library;

    public static void main(String[] args) throws Exception {
        library = args[0].equals("http") ? httpClient() : Client::urlConnection;
        base = args[1];
        control = args[2];
        dir = args[3];
        for (String name : Arrays.copyOfRange(args, 4, args.length)) {
            System.out.println("== " + name);
            run(name);
        }
    }

    static void run(String name) throws Exception {
        switch (name) {
            case "get" -> call("GET", "/items/42/notes/a%20b?tag=x&tag=y&q=a+b", null, OWN[0], OWN[1],
                "Accept", "application/json", "X-Trace", "t-1", "Accept-Encoding", "gzip");
            case "json" -> call("POST", "/items", utf8("{\"name\":\"\u00e9\",\"n\":1.0}"), OWN[0], OWN[1], "Content-Type", "application/json");
            case "form" -> call("POST", "/forms", utf8("a=1&b=two+words&a=3"), "Content-Type", FORM);
            case "missing" -> call("GET", "/status/404", null);
            case "broken" -> call("GET", "/status/500", null);
            case "reply" -> call("GET", "/reply", null, "Accept-Encoding", "gzip");
            case "down" -> call("GET", "/blob", null);
            case "up" -> call("POST", "/blob", Files.readAllBytes(Path.of(dir, "up.bin")), "Content-Type", "application/octet-stream");
            case "reuse" -> reuse();
            case "stream" -> stream();
            default -> throw new IllegalArgumentException(name);
        }
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static Library httpClient() {
        HttpClient client = HttpClient.newHttpClient();
        return (method, url, body, headers) -> {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url)).method(method,
                body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofByteArray(body));
            if (headers.length > 0) {
                request.headers(headers);
            }
            HttpResponse<InputStream> answer = client.send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
            return new Answer(answer.statusCode(), answer.headers().map(), answer.body());
        };
    }

    static Answer urlConnection(String method, String url, byte[] body, String... headers) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) URI.create(url).toURL().openConnection();
        connection.setRequestMethod(method);
        for (int i = 0; i < headers.length; i += 2) {
            connection.setRequestProperty(headers[i], headers[i + 1]);
        }
        if (body != null) {
            connection.setDoOutput(true);
            try (OutputStream out = connection.getOutputStream()) {
                out.write(body);
            }
        }
        int status = connection.getResponseCode();
        InputStream answer = status < 400 ? connection.getInputStream() : connection.getErrorStream();
        return new Answer(status, connection.getHeaderFields(), answer);
    }

    static void call(String method, String path, byte[] body, String... headers) throws Exception {
        Answer answer = library.send(method, base + path, body, headers);
        System.out.println("status " + answer.status);
        answer.headers.forEach((name, values) -> {
            for (String value : values) {
                if (name != null) {
                    System.out.println("header " + name.toLowerCase() + " " + value);
                }
            }
        });
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        long size = 0;
        byte[] part = new byte[8192];
        try (InputStream in = answer.body) {
            for (int n; (n = in.read(part)) >= 0; size += n) {
                digest.update(part, 0, n);
            }
        }
        System.out.println("size " + size);
        System.out.println("sha256 " + HexFormat.of().formatHex(digest.digest()));
    }

    // How many connections Java made it does not say; the upstream counts them.
    static void reuse() throws Exception {
        int ok = 0;
        for (int n = 1; n <= 100; n++) {
            Answer answer = library.send("GET", base + "/items/" + n + "/notes/n", null);
            try (InputStream in = answer.body) {
                in.readAllBytes();
            }
            ok += answer.status == 200 ? 1 : 0;
        }
        System.out.println("ok " + ok);
    }

    static void stream() throws Exception {
        Answer answer = library.send("GET", base + "/stream", null, "Accept", "text/event-stream");
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(answer.body))) {
            for (String line; (line = lines.readLine()) != null; ) {
                if (line.startsWith("data: ")) {
                    String n = line.substring(6);
                    System.out.println("event " + n);
                    library.send("GET", control + "/ack?n=" + n, null).body.close();
                }
            }
        }
    }
}
