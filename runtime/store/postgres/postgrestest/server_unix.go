//go:build unix

package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The one user of a server, and a password that has to be percent-encoded.
const (
	User     = "kimbap"
	Password = "pass/w@rd?#:%"
)

// Server is a running server. It listens on a socket in its folder, and nowhere else but
// after [Server.ServeTLS].
type Server struct {
	dir  string
	as   *syscall.Credential // nil: the user of the test
	args []string
	run  *exec.Cmd      // nil: it is stopped
	ends io.WriteCloser // when it is closed
	port int            // of its socket, and of TCP after [Server.ServeTLS]
	made atomic.Int64
}

// guarded is the script that runs a server until its own input ends: with the test, also
// with one that is killed.
const guarded = `"$@" & cat >/dev/null; kill -QUIT $!; wait $!`

// Start makes a database cluster and starts its server, which ends with the test. A
// setting is a line of postgresql.conf. It fails the test where PostgreSQL is not
// installed.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "kimbap-pg-") // a short path: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{dir: dir, port: 5432}
	if os.Getuid() == 0 { // which PostgreSQL does not run as
		s.as = unprivileged(t)
		s.own(t, dir)
	}
	s.cluster(t)
	s.args = []string{"-D", s.data(), "-c", "listen_addresses=", "-c", "unix_socket_directories=" + dir, "-c", "fsync=off"}
	for _, setting := range settings {
		s.args = append(s.args, "-c", setting)
	}
	s.Resume(t)
	t.Cleanup(func() { s.Stop(t) })
	return s
}

// Resume starts the server again after [Server.Stop] and waits until it answers.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.run = s.command("sh", append([]string{"-c", guarded, "sh", program("postgres")}, s.args...)...)
	said, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	s.run.Stderr = said
	if s.ends, err = s.run.StdinPipe(); err == nil {
		err = s.run.Start()
	}
	_ = said.Close()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		conn, err := s.Connect(t.Context(), "postgres")
		if err == nil {
			_ = conn.Close(t.Context())
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(said.Name())
			t.Fatalf("the server does not answer: %v\n%s", err, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Stop ends the server at once, as its machine might: nothing of a running transaction
// stays. It can be called again.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if s.run == nil {
		return
	}
	_ = s.ends.Close() // SIGQUIT, an immediate shutdown
	_ = s.run.Wait()
	s.run = nil
}

// Database makes an empty database and returns its name.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", s.made.Add(1))
	s.Exec(t, "postgres", "CREATE DATABASE "+name)
	return name
}

// Exec runs a statement as the owner of everything.
func (s *Server) Exec(t testing.TB, database, statement string) {
	t.Helper()
	conn, err := s.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.PgConn().Exec(t.Context(), statement).ReadAll(); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Await returns when a query has true for its answer.
func (s *Server) Await(t testing.TB, database, query string) {
	t.Helper()
	conn, err := s.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		is := false
		if err := conn.QueryRow(t.Context(), query).Scan(&is); err != nil || time.Now().After(deadline) {
			t.Fatalf("%s: not in a minute, %v", query, err)
		}
		if is {
			return
		}
	}
}

// Connect opens a connection of the test's own, which closes it.
func (s *Server) Connect(ctx context.Context, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.Host, config.Port, config.User, config.Password, config.Database = s.dir, uint16(s.port), User, Password, database
	config.TLSConfig, config.Fallbacks = nil, nil
	return pgx.ConnectConfig(ctx, config)
}

// ServeTLS starts the server again with TCP on 127.0.0.1 and this certificate, in PEM, and
// returns the port.
func (s *Server) ServeTLS(t testing.TB, certificate, key []byte) (port int) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	for name, text := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		file := filepath.Join(s.dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s.own(t, file)
	}
	s.args = append(s.args, "-c", "listen_addresses=127.0.0.1", "-c", fmt.Sprintf("port=%d", s.port), "-c", "ssl=on",
		"-c", "ssl_cert_file="+filepath.Join(s.dir, "tls.crt"), "-c", "ssl_key_file="+filepath.Join(s.dir, "tls.key"))
	s.Stop(t)
	s.Resume(t)
	return s.port
}

func (s *Server) data() string   { return filepath.Join(s.dir, "data") }
func (s *Server) socket() string { return filepath.Join(s.dir, fmt.Sprintf(".s.PGSQL.%d", s.port)) }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(program(name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return cmd
}

// program finds one of PostgreSQL's, which Debian keeps out of PATH.
func program(name string) string {
	if found, err := exec.LookPath(name); err == nil {
		return found
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return name
	}
	return found[len(found)-1]
}

// unprivileged is a user that a server may run as.
func unprivileged(t testing.TB) *syscall.Credential {
	t.Helper()
	who, err := user.Lookup("postgres")
	if err != nil {
		who, err = user.Lookup("nobody")
	}
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	gid, second := strconv.ParseUint(who.Gid, 10, 32)
	if err := errors.Join(err, second); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
