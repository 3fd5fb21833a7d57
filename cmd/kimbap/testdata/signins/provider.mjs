// A certified OpenID provider (oidc-provider, of the folder SIGNINS_MODULES), an API that takes its
// tokens, and a person with a browser, for `make signins`. It prints its address, and ends with stdin.
import http from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const found = createRequire(process.env.SIGNINS_MODULES + '/');
const { Provider } = await import(pathToFileURL(found.resolve('oidc-provider')));

const served = http.createServer((req, res) => answer(req, res));
await new Promise((up) => served.listen(0, '127.0.0.1', up));
const home = `http://127.0.0.1:${served.address().port}`;

const deviceGrant = 'urn:ietf:params:oauth:grant-type:device_code';
const client = (id, how, secret) => ({
  client_id: id, client_secret: secret, token_endpoint_auth_method: how, application_type: 'native',
  redirect_uris: ['http://127.0.0.1/callback'], response_types: ['code'], grant_types: ['authorization_code', 'refresh_token', deviceGrant],
});
const machine = (id, how) => ({
  client_id: id, client_secret: 'a secret+%/&=', token_endpoint_auth_method: how, redirect_uris: [], response_types: [], grant_types: ['client_credentials'],
});
const provider = new Provider(home, {
  clients: [machine('machine:basic', 'client_secret_basic'), machine('machine-post', 'client_secret_post'), client('public', 'none'), client('id:basic', 'client_secret_basic', 'a secret+%/&='), client('post', 'client_secret_post', 'a secret+%/&=')],
  scopes: ['openid', 'offline_access', 'notes:read'],
  features: {
    devInteractions: { enabled: true }, deviceFlow: { enabled: true }, clientCredentials: { enabled: true }, revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource) => ({ scope: 'notes:read', audience: resource, accessTokenTTL: 5, accessTokenFormat: 'opaque' }),
    },
  },
  pkce: { required: () => true },
  rotateRefreshToken: true, // and the grant is over when one is used twice
  ttl: { AccessToken: 5, DeviceCode: 60, RefreshToken: 600, Grant: 600, Session: 600, Interaction: 600, IdToken: 60 },
  cookies: { keys: ['one'] },
});
const counts = { refreshes: 0, ended: 0, given: 0, returned: 0 };
provider.on('grant.success', (ctx) => {
  if (ctx.oidc.params.grant_type === 'refresh_token') counts.refreshes++;
  if (ctx.oidc.params.grant_type === 'client_credentials') counts.given++;
});
provider.on('client_credentials.destroyed', () => { counts.returned++; });
provider.on('grant.revoked', () => { counts.ended++; });
const handle = provider.callback();

async function answer(req, res) {
  const at = new URL(req.url, home);
  const say = (status, value) => { res.writeHead(status, { 'Content-Type': 'application/json' }); res.end(JSON.stringify(value)); };
  try {
    switch (at.pathname) {
      case '/test/counts': return say(200, counts);
      case '/test/agree': return say(200, await new Person().agrees(at.searchParams.get('url')));
      case '/test/types': return say(200, await new Person().types(at.searchParams.get('url'), at.searchParams.get('code')));
      case '/api/notes': {
        const text = (req.headers.authorization || '').replace(/^Bearer /, '') || 'none';
        const token = await provider.AccessToken.find(text) || await provider.ClientCredentials.find(text);
        return token?.aud === `${home}/api` ? say(200, { notes: [] }) : say(401, { error: 'another token' });
      }
    }
    handle(req, res);
  } catch (err) { say(500, { error: String(err) }); }
}

// Person has a browser with cookies, and agrees to all that the provider asks.
class Person {
  #cookies = {};

  async #go(url, form) {
    for (let i = 0; i < 20; i++) {
      const page = await fetch(url, {
        redirect: 'manual', method: form ? 'POST' : 'GET', body: form && new URLSearchParams(form),
        headers: { cookie: Object.entries(this.#cookies).map((pair) => pair.join('=')).join('; ') },
      });
      for (const line of page.headers.getSetCookie()) {
        const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
        this.#cookies[name] = value;
      }
      if (page.status < 300 || page.status > 399) return { url, status: page.status, text: await page.text() };
      [url, form] = [new URL(page.headers.get('location'), url).href, undefined];
    }
    throw new Error('it goes round in circles');
  }

  async #agreesOn(page) {
    while (new URL(page.url).pathname.startsWith('/interaction/')) {
      const to = new URL(page.text.match(/action="([^"]+)"/)[1], page.url).href;
      page = await this.#go(to, page.text.includes('value="login"') ? { prompt: 'login', login: 'alice', password: 'x' } : { prompt: 'consent' });
    }
    return { status: page.status, text: page.text };
  }

  async agrees(url) { return this.#agreesOn(await this.#go(url)); }

  async types(url, code) {
    const hidden = (page) => Object.fromEntries([...page.text.matchAll(/name="([^"]+)" value="([^"]*)"/g)].map((m) => [m[1], m[2]]));
    const first = await this.#go(url);
    const asked = await this.#go(url, { ...hidden(first), user_code: code });
    return this.#agreesOn(await this.#go(url, { ...hidden(asked), confirm: 'yes' }));
  }
}

console.log(home);
process.stdin.on('end', () => process.exit(0)).resume();
