package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Pair makes the connection by which sockets are handed out: the outside keeps
// ours and gives theirs to the process inside. The caller closes both.
func Pair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "room"), os.NewFile(uintptr(fds[1]), "room"), nil
}

// Receive takes the sockets of a room with so many doors. It waits for them,
// and fails when the process inside ends instead.
func Receive(from *os.File, names *Names, doors int) (*Room, error) {
	var files []*os.File
	for len(files) < fixedSockets+doors {
		f, err := receive(int(from.Fd()))
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			return nil, err
		}
		files = append(files, f)
	}
	return newRoom(names, files)
}

// receive takes one descriptor (unix(7), SCM_RIGHTS).
func receive(fd int) (*os.File, error) {
	data, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, size, _, _, err := unix.Recvmsg(fd, data, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	if n == 0 {
		return nil, errors.New("the process inside ended")
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("a message without a socket")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("a message without a socket")
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		_ = unix.Close(fds[0])
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), nil
}

// Tell sends the process inside a text, before anything else. It is no argument,
// since one of those has at most 128 KiB (execve(2)).
func Tell(to *os.File, text []byte) error {
	_, err := to.Write(append(binary.NativeEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// Told reads that text, inside.
func Told(from *os.File) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, fmt.Errorf("nobody says what is in the network: %w", err)
	}
	text := make([]byte, binary.NativeEndian.Uint32(size[:]))
	_, err := io.ReadFull(from, text)
	return text, err
}

// Release lets the process inside start the program: the room is served.
func Release(to *os.File) error {
	_, err := to.Write([]byte{1})
	return err
}

// AwaitRelease waits, inside, until the room is served. An error says that
// nobody will serve it.
func AwaitRelease(from *os.File) error {
	if n, err := from.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("nobody serves the network: %w", err)
	}
	return nil
}

// connect makes the network: loopback up, with the addresses of all names.
func connect() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }()
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	// An address on loopback makes its whole network one of this machine.
	for _, step := range []struct {
		request uint
		value   []byte
	}{{unix.SIOCSIFADDR, base[:]}, {unix.SIOCSIFNETMASK, []byte{255, 254, 0, 0}}} {
		request, err := unix.NewIfreq("lo:1")
		if err != nil {
			return err
		}
		if err := request.SetInet4Addr(step.value); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, step.request, request); err != nil {
			return fmt.Errorf("give loopback the addresses of names: %w", err)
		}
	}
	return nil
}

// handOut opens the sockets of the room and sends them. None stays here: when
// the outside ends, nobody listens any more.
func handOut(to *os.File, doors []netip.AddrPort) error {
	asked, err := net.ListenPacket("udp4", nameServer+":53")
	if err != nil {
		return err
	}
	if err := send(to, asked); err != nil {
		return err
	}
	places := []string{nameServer + ":53", ProxyAddress}
	for _, port := range plainPorts {
		places = append(places, "0.0.0.0:"+port)
	}
	for _, door := range doors {
		places = append(places, door.String())
	}
	for _, place := range places {
		ln, err := net.Listen("tcp4", place)
		if err != nil {
			return err
		}
		if err := send(to, ln); err != nil {
			return err
		}
	}
	return nil
}

// send sends a socket and closes it here.
func send(to *os.File, socket any) error {
	owner, ok := socket.(interface {
		File() (*os.File, error)
		Close() error
	})
	if !ok {
		return fmt.Errorf("%T has no descriptor", socket)
	}
	f, err := owner.File()
	_ = owner.Close()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	err = unix.Sendmsg(int(to.Fd()), []byte{1}, unix.UnixRights(int(f.Fd())), nil, 0)
	return os.NewSyscallError("sendmsg", err)
}
