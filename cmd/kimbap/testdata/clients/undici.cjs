// undici.cjs BASE CONTROL DIR CASE...: see clients_test.go for what each case does and prints.
const { createHash } = require('node:crypto')
const { readFileSync } = require('node:fs')
const { createRequire } = require('node:module')
const channel = require('node:diagnostics_channel')

const { EnvHttpProxyAgent, request } = createRequire(process.env.UNDICI_DIR + '/')('undici')
const dispatcher = new EnvHttpProxyAgent()
const [base, control, dir, ...wanted] = process.argv.slice(2)
const own = 'Bearer the-clients-own'

let made = 0
channel.subscribe('net.client.socket', () => { made++ })

const send = (method, path, headers = {}, body) =>
  request(base + path, { method, headers, body, dispatcher, responseHeaders: 'raw' })

async function call (...what) {
  const { statusCode, headers, body } = await send(...what)
  console.log('status', statusCode)
  for (let i = 0; i < headers.length; i += 2) console.log('header', String(headers[i]).toLowerCase(), String(headers[i + 1]))
  const digest = createHash('sha256')
  let size = 0
  for await (const part of body) { digest.update(part); size += part.length }
  console.log('size', size)
  console.log('sha256', digest.digest('hex'))
}

const cases = {
  get: () => call('GET', '/items/42/notes/a%20b?tag=x&tag=y&q=a+b', { Authorization: own, Accept: 'application/json', 'X-Trace': 't-1', 'Accept-Encoding': 'gzip' }),
  json: () => call('POST', '/items', { Authorization: own, 'Content-Type': 'application/json' }, '{"name":"é","n":1.0}'),
  form: () => call('POST', '/forms', { 'Content-Type': 'application/x-www-form-urlencoded' }, 'a=1&b=two+words&a=3'),
  missing: () => call('GET', '/status/404'),
  broken: () => call('GET', '/status/500'),
  reply: () => call('GET', '/reply', { 'Accept-Encoding': 'gzip' }),
  down: () => call('GET', '/blob'),
  up: () => call('POST', '/blob', { 'Content-Type': 'application/octet-stream' }, readFileSync(dir + '/up.bin')),
  async reuse () {
    const before = made
    let ok = 0
    for (let n = 1; n <= 100; n++) {
      const { statusCode, body } = await send('GET', `/items/${n}/notes/n`)
      await body.dump()
      if (statusCode === 200) ok++
    }
    console.log('ok', ok)
    console.log('connections', made - before)
  },
  async stream () {
    const { body } = await send('GET', '/stream', { Accept: 'text/event-stream' })
    let text = ''
    for await (const part of body) {
      text += part
      for (let end; (end = text.indexOf('\n')) >= 0; text = text.slice(end + 1)) {
        const line = text.slice(0, end)
        if (!line.startsWith('data: ')) continue
        const n = line.slice(6)
        console.log('event', n)
        await (await request(`${control}/ack?n=${n}`, { dispatcher })).body.dump()
      }
    }
  }
}

;(async () => {
  for (const name of wanted) {
    console.log('==', name)
    await cases[name]()
  }
  await dispatcher.close()
})().catch(error => { console.error(error); process.exit(1) })
