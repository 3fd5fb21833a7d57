// Arguments: a file of roots, then PORT NAME for each server. Each line says
// whether the server at that port of loopback is believed to be NAME.
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { checkServerIdentity, connect } from 'node:tls'

const [, , roots, ...rest] = process.argv
const ca = readFileSync(roots)
for (let i = 0; i < rest.length; i += 2) {
  const [port, name] = [Number(rest[i]), rest[i + 1]]
  const answer = await new Promise(resolve => {
    const socket = connect({
      host: '127.0.0.1', port, ca, servername: isIP(name) ? '' : name,
      checkServerIdentity: (_, cert) => checkServerIdentity(name, cert),
    }, () => resolve(socket.authorized ? 'ok' : 'refused: ' + socket.authorizationError))
    socket.on('error', e => resolve('refused: ' + e.message.split('\n')[0]))
    socket.on('secureConnect', () => socket.end())
  })
  console.log(answer)
}
