package peer

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/runtime"
)

// Known says whether the kernel tells here whose a connection is.
const Known = true

// The parts of sock_diag(7) that x/sys does not name; offsets are bytes.
const (
	sockDiagByFamily = 20
	diagRequestSize  = 56 // struct inet_diag_req_v2
	diagAnswerSize   = 72 // struct inet_diag_msg
	diagID           = 4  // struct inet_diag_sockid in the answer
	diagRequestID    = 8  // and in the request
	diagIDPorts      = 4  // its ports, behind which come two addresses of 16 bytes each
	diagUID          = 64
	diagInode        = 68

	nlmsgSequence = 8 // in the header of a message, netlink(7)
)

// socketOwner asks for exactly the socket that is bound to from and connected
// to to, the client's end. An answer for another socket, such as a listener, and an
// inode of 0 (nobody holds it any more) mean a foreign peer; an error, twice, one that
// nobody could ask for.
func socketOwner(from, to netip.AddrPort) runtime.Peer {
	for range 2 {
		q, err := inquirer()
		if err != nil {
			break
		}
		answer, err := q.ask(diagRequest(from, to))
		if err != nil {
			_ = unix.Close(q.fd) // what it may still be told is no answer to the next question
			continue
		}
		defer q.rest()
		if uid, ok := diagAnswer(answer, from, to); ok {
			return runtime.Peer{Known: true, UID: uid, Owner: uid == unix.Geteuid()}
		}
		return runtime.Peer{}
	}
	return runtime.Peer{Unasked: true}
}

// inquiry is a socket for questions to the kernel, one at a time.
type inquiry struct {
	fd     int
	number uint32 // of the last question (nlmsg_seq)
	room   [1024]byte
}

// inquiries are those that rest. To open and to close one takes twice as long as a
// question.
var inquiries = make(chan *inquiry, 4)

// inquiryPatience is how long one is waited for when there is no descriptor for another:
// as long as one may take to be answered.
const inquiryPatience = time.Second

// inquirer is one that rests, or a new one.
func inquirer() (*inquiry, error) {
	select {
	case q := <-inquiries:
		return q, nil
	default:
	}
	q, err := newInquiry()
	if !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) {
		return q, err
	}
	select {
	case q := <-inquiries:
		return q, nil
	case <-time.After(inquiryPatience):
		return nil, err
	}
}

func newInquiry() (*inquiry, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &inquiry{fd: fd}, nil
}

// rest keeps the socket for the next question, or closes it.
func (q *inquiry) rest() {
	select {
	case inquiries <- q:
	default:
		_ = unix.Close(q.fd)
	}
}

var errNotTheKernel = errors.New("an answer to another question, or not of the kernel")

// ask numbers a question and returns its answer, which is valid until the next one.
func (q *inquiry) ask(question []byte) ([]byte, error) {
	q.number++
	binary.NativeEndian.PutUint32(question[nlmsgSequence:], q.number)
	if err := unix.Sendto(q.fd, question, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	n, sender, err := unix.Recvfrom(q.fd, q.room[:], 0)
	if err != nil {
		return nil, err
	}
	kernel, ok := sender.(*unix.SockaddrNetlink)
	if !ok || kernel.Pid != 0 || n < unix.SizeofNlMsghdr || binary.NativeEndian.Uint32(q.room[nlmsgSequence:]) != q.number {
		return nil, errNotTheKernel
	}
	return q.room[:n], nil
}

// diagRequest is a netlink message that asks for one socket.
func diagRequest(from, to netip.AddrPort) []byte {
	m := make([]byte, unix.SizeofNlMsghdr+diagRequestSize)
	native := binary.NativeEndian
	native.PutUint32(m[0:], uint32(len(m)))
	native.PutUint16(m[4:], sockDiagByFamily)
	native.PutUint16(m[6:], unix.NLM_F_REQUEST)
	body := m[unix.SizeofNlMsghdr:]
	body[0], body[1] = unix.AF_INET, unix.IPPROTO_TCP
	if from.Addr().Is6() {
		body[0] = unix.AF_INET6
	}
	native.PutUint32(body[4:], ^uint32(0)) // in any state
	id := body[diagRequestID:]
	binary.BigEndian.PutUint16(id[0:], from.Port())
	binary.BigEndian.PutUint16(id[2:], to.Port())
	copy(id[4:20], from.Addr().AsSlice())
	copy(id[20:36], to.Addr().AsSlice())
	native.PutUint64(id[40:], ^uint64(0)) // INET_DIAG_NOCOOKIE
	return m
}

// diagAnswer reads the owner of the socket between from and to out of the
// kernel's answer.
func diagAnswer(m []byte, from, to netip.AddrPort) (uid int, ok bool) {
	if len(m) < unix.SizeofNlMsghdr+diagAnswerSize {
		return 0, false
	}
	native := binary.NativeEndian
	if native.Uint16(m[4:]) != sockDiagByFamily {
		return 0, false
	}
	body := m[unix.SizeofNlMsghdr:]
	if gotFrom, gotTo := diagEnds(body); gotFrom != from || gotTo != to {
		return 0, false
	}
	if native.Uint32(body[diagInode:]) == 0 {
		return 0, false
	}
	return int(native.Uint32(body[diagUID:])), true
}

// diagEnds reads the two ends of a socket. Those of an IPv6 socket that is
// connected over IPv4, as all of Java's are, are mapped addresses, also where
// the question named plain ones.
func diagEnds(body []byte) (from, to netip.AddrPort) {
	id := body[diagID:]
	end := func(port, address int) netip.AddrPort {
		at := id[diagIDPorts+address*16:]
		addr := netip.AddrFrom16([16]byte(at[:16])).Unmap()
		if body[0] == unix.AF_INET {
			addr = netip.AddrFrom4([4]byte(at[:4]))
		}
		return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(id[port*2:]))
	}
	return end(0, 0), end(1, 1)
}
