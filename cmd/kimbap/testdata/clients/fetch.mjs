// fetch.mjs BASE CONTROL DIR CASE...: see clients_test.go for what each case
// does and prints. It is the global fetch of deno and bun; both decode a body
// that is compressed, so what they print of it is what came out. Only bun can
// be told to leave it.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import process from 'node:process'

const [base, control, dir, ...wanted] = process.argv.slice(2)
const own = 'Bearer the-clients-own'

const send = (method, path, headers = {}, body) =>
  fetch(base + path, { method, headers, body, redirect: 'manual', decompress: false })

async function call (...what) {
  const answer = await send(...what)
  console.log('status', answer.status)
  for (const [name, value] of answer.headers) console.log('header', name, value)
  const digest = createHash('sha256')
  let size = 0
  for await (const part of answer.body) { digest.update(part); size += part.length }
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
  async reuse () { // the upstream counts the connections
    let ok = 0
    for (let n = 1; n <= 100; n++) {
      const answer = await send('GET', `/items/${n}/notes/n`)
      await answer.arrayBuffer()
      if (answer.status === 200) ok++
    }
    console.log('ok', ok)
  },
  async stream () {
    const { body } = await send('GET', '/stream', { Accept: 'text/event-stream' })
    let text = ''
    for await (const part of body.pipeThrough(new TextDecoderStream())) {
      text += part
      for (let end; (end = text.indexOf('\n')) >= 0; text = text.slice(end + 1)) {
        const line = text.slice(0, end)
        if (!line.startsWith('data: ')) continue
        const n = line.slice(6)
        console.log('event', n)
        await (await fetch(`${control}/ack?n=${n}`)).arrayBuffer()
      }
    }
  }
}

for (const name of wanted) {
  console.log('==', name)
  await cases[name]()
}
