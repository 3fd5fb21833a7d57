package runner

import "strings"

// Probe is one client that can be tried: how it is started to fetch a URL, and
// what to set when it does not get through as it is.
type Probe struct {
	Name  string
	Needs string // program that must be in the PATH; "": kimbap itself
	// Argv fetches url in at most twenty seconds; dir is an empty folder. Its exit
	// code [NotHere] says that what it tries is not installed.
	Argv   func(url, dir string) []string
	Files  map[string]string // put into dir before
	Around string            // what to do when it went around the proxy
	CA     string            // what to do when it did not believe the certificate
}

// NotHere is how a probe ends when the library that it tries is not installed.
const NotHere = 77

const (
	isolateOr = "kimbap run --isolate, which needs no proxy setting (Linux)"
	noOwn     = "look for a setting of its own that wins over the variables"
)

// python tries a library, which may be missing.
func python(name, library, code, around, ca string) Probe {
	text := "import sys\ntry:\n    import " + library + "\nexcept ImportError:\n    sys.exit(77)\n" + code
	return Probe{
		Name: name, Needs: "python3", Around: around, CA: ca,
		Argv: func(url, _ string) []string { return []string{"python3", "-c", text, url} },
	}
}

const javaProbe = `import java.net.URI;
import java.net.http.*;
import java.time.Duration;
public class Probe {
  public static void main(String[] a) throws Exception {
    HttpClient c = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(15)).build();
    System.out.println(c.send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString()).body());
  }
}
`

const aiohttpProbe = `import asyncio
async def main():
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=15)) as s:
        async with s.get(sys.argv[1]) as r:
            print(await r.text())
asyncio.run(main())
`

// Probes are the clients that can be tried, in the order in which they are shown.
func Probes() []Probe {
	fixed := func(words ...string) func(string, string) []string {
		return func(url, dir string) []string {
			out := make([]string, len(words))
			for i, word := range words {
				out[i] = strings.NewReplacer("{url}", url, "{dir}", dir).Replace(word)
			}
			return out
		}
	}
	return []Probe{
		{Name: "curl", Needs: "curl", Argv: fixed("curl", "-sS", "-m", "15", "{url}"), Around: "take proxy and noproxy out of ~/.curlrc", CA: "take cacert out of ~/.curlrc; a curl that is not built with OpenSSL may need kimbap ca install"},
		{Name: "wget", Needs: "wget", Argv: fixed("wget", "-q", "-T", "15", "-t", "1", "-O", "-", "{url}"), Around: "take use_proxy and https_proxy out of ~/.wgetrc", CA: "take ca_certificate out of ~/.wgetrc, which is read after kimbap's"},
		{Name: "git", Needs: "git", Argv: fixed("git", "-c", "credential.helper=", "ls-remote", "{url}"), Around: "git config --global --unset http.proxy", CA: "git config --global --unset http.sslCAInfo"},
		python("python", "urllib.request", "print(urllib.request.urlopen(sys.argv[1], timeout=15).read())", noOwn, "unset what sets another ssl context"),
		python("requests", "requests", "print(requests.get(sys.argv[1], timeout=15).text)", "sessions with trust_env=False take no proxy: "+isolateOr, "take verify= out of the code, or pass it $REQUESTS_CA_BUNDLE"),
		python("httpx", "httpx", "print(httpx.get(sys.argv[1], timeout=15).text)", "clients with trust_env=False take no proxy: "+isolateOr, "httpx.Client(verify=ssl.create_default_context())"),
		python("aiohttp", "aiohttp", aiohttpProbe, "aiohttp.ClientSession(trust_env=True), or "+isolateOr, "it reads SSL_CERT_FILE"),
		{Name: "node", Needs: "node", Argv: fixed("node", "-e", "fetch('{url}',{signal:AbortSignal.timeout(15000)}).then(r=>r.text()).then(console.log,e=>{console.error(e);process.exit(1)})"), Around: "Node 24 with NODE_USE_ENV_PROXY=1, which kimbap sets; older: undici's EnvHttpProxyAgent, or " + isolateOr, CA: "NODE_EXTRA_CA_CERTS is read at the start alone, and not by setuid programs"},
		{Name: "npm", Needs: "npm", Argv: fixed("npm", "view", "kimbap-probe", "--registry", "{url}", "--fetch-retries=0", "--fetch-timeout=15000", "--cache", "{dir}"), Around: "npm config delete proxy https-proxy noproxy", CA: "npm config delete cafile ca"},
		{Name: "deno", Needs: "deno", Argv: fixed("deno", "eval", "console.log(await (await fetch('{url}')).text())"), Around: noOwn, CA: "DENO_TLS_CA_STORE=mozilla, and DENO_CERT as kimbap sets it"},
		{Name: "bun", Needs: "bun", Argv: fixed("bun", "-e", "console.log(await (await fetch('{url}')).text())"), Around: noOwn, CA: "it reads NODE_EXTRA_CA_CERTS"},
		{Name: "go", Argv: nil, Around: "programs in Go take no proxy for this machine, and none with Transport{Proxy: nil}: " + isolateOr, CA: "outside Linux Go does not read SSL_CERT_FILE: kimbap ca install"},
		{Name: "java", Needs: "javac", Files: map[string]string{"Probe.java": javaProbe}, Argv: fixed("java", "-XX:TieredStopAtLevel=1", "{dir}/Probe.java", "{url}"), Around: "Java 8 does not read JDK_JAVA_OPTIONS: give its words in JAVA_TOOL_OPTIONS", CA: "a program with a trust store of its own: kimbap ca install --store java:FILE"},
		{Name: "ruby", Needs: "ruby", Argv: fixed("ruby", "-rnet/http", "-e", "puts Net::HTTP.get(URI('{url}'))"), Around: "Net::HTTP.new(host, port) with nil as proxy takes none: " + isolateOr, CA: "it reads SSL_CERT_FILE"},
		{Name: "php", Needs: "php", Argv: fixed("php", "-r", "if (!function_exists('curl_init')) exit(77); $c = curl_init('{url}'); curl_setopt($c, CURLOPT_TIMEOUT, 15); exit(curl_exec($c) ? 0 : 1);"), Around: "streams (file_get_contents) take no proxy: use the curl extension, or " + isolateOr, CA: "a php.ini that is read after PHP_INI_SCAN_{dir} sets curl.cainfo"},
		{Name: "pip", Needs: "python3", Argv: fixed("python3", "-m", "pip", "download", "-q", "--no-deps", "--retries", "0", "--timeout", "15", "--disable-pip-version-check", "--no-cache-dir", "-d", "{dir}", "--index-url", "{url}", "kimbap-probe"), Around: "pip config unset global.proxy", CA: "pip config unset global.cert"},
		{Name: "cargo", Needs: "cargo", Argv: fixed("cargo", "search", "--limit", "1", "--index", "sparse+{url}/", "kimbap-probe"), Around: "take proxy out of http in ~/.cargo/config.toml", CA: "take cainfo out of http in ~/.cargo/config.toml"},
	}
}
