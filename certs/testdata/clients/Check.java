import java.io.FileInputStream;
import java.net.Socket;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

// Arguments: a file of roots, then PORT NAME for each server. Each line says
// whether the server at that port of loopback is believed to be NAME.
public class Check {
    public static void main(String[] args) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (FileInputStream in = new FileInputStream(args[0])) {
            for (Certificate c : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
                store.setCertificateEntry("root" + store.size(), c);
            }
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        for (int i = 1; i + 1 < args.length; i += 2) {
            int port = Integer.parseInt(args[i]);
            Socket plain = new Socket("127.0.0.1", port);
            try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket(plain, args[i + 1], port, true)) {
                SSLParameters parameters = socket.getSSLParameters();
                parameters.setEndpointIdentificationAlgorithm("HTTPS");
                socket.setSSLParameters(parameters);
                socket.startHandshake();
                System.out.println("ok");
            } catch (SSLException e) {
                System.out.println("refused: " + e.getMessage());
            }
        }
    }
}
