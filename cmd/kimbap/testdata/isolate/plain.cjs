// plain.cjs URL: reads URL with Node's own client, which knows no proxy.
const https = require('node:https')

https.get(process.argv[2], answer => {
  let body = ''
  answer.on('data', part => { body += part })
  answer.on('end', () => console.log(answer.statusCode, body))
})
