# Arguments: a file of roots, then PORT NAME for each server. Each line says
# whether the server at that port of loopback is believed to be NAME.
import socket, ssl, sys

context = ssl.create_default_context(cafile=sys.argv[1])
for port, name in zip(sys.argv[2::2], sys.argv[3::2]):
    try:
        with socket.create_connection(("127.0.0.1", int(port)), 20) as plain:
            with context.wrap_socket(plain, server_hostname=name):
                print("ok")
    except ssl.SSLCertVerificationError as e:
        print("refused:", e.verify_message)
