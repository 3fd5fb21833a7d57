"""escape.py PORT PID FOLDER: tries every way out of the network that it is in,
and prints one line for each that is open. PORT is where somebody listens on the
machine, by TCP, by UDP and under an abstract name; PID is a process outside,
FOLDER has sockets in files."""
import ctypes
import errno
import fcntl
import os
import socket
import struct
import subprocess
import sys

port, pid, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
libc = ctypes.CDLL(None, use_errno=True)
LITERALS = ["127.0.0.1", "93.184.216.10", "169.254.169.254", "8.8.8.8", "10.0.0.1"]


def attempt(name, way):
    try:
        if way() is not False:
            print("open:", name)
    except OSError:
        pass


def tcp(address, to):
    def way():
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(3)
            s.connect((address, to))
    return way


def udp(address, to):
    def way():
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.sendto(b"escaped", (address, to))
            s.settimeout(0.3)
            s.connect((address, to))
            s.send(b"escaped")  # an ICMP error of the first one comes here
            s.recv(10)
    return way


def kind(family, sort, protocol=0):
    def way():
        socket.socket(family, sort, protocol).close()
    return way


def ping(address):
    def way():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as s:
            s.settimeout(1)
            s.sendto(b"\x08\0\0\0\0\0\0\1escaped", (address, 0))
            s.recv(100)
    return way


def unix(path):
    def way():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.connect(path)
    return way


def enter():
    fd = os.open("/proc/%s/ns/net" % pid, os.O_RDONLY)
    if libc.setns(fd, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def typed():
    try:
        fcntl.ioctl(0, 0x5412, b"x")
    except OSError as refused:
        if refused.errno == errno.EPERM:
            raise
    # what is no terminal says so, if it is asked


def ring():
    if libc.syscall(425, 1, ctypes.create_string_buffer(120)) < 0 and ctypes.get_errno() == errno.ENOSYS:
        return False


def shell(command):
    return lambda: subprocess.run(["sh", "-c", command], capture_output=True).returncode == 0


for address in LITERALS + ["::1", "2001:db8::1"]:
    attempt("tcp " + address, tcp(address, port))
    attempt("udp " + address, udp(address, port))
    attempt("https " + address, tcp(address, 443) if not address.startswith("127.") else lambda: False)
    attempt("dns " + address, udp(address, 53) if not address.startswith("127.") else lambda: False)
for address in ["93.184.216.10", "8.8.8.8"]:
    attempt("ping " + address, ping(address))
attempt("raw socket", kind(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
attempt("packet socket", kind(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
attempt("vsock", kind(40, socket.SOCK_STREAM))
attempt("another port of a name", tcp("api.acme.example", 22))
attempt("abstract", unix("\0kimbap-test-%d" % port))
attempt("socket in a file", unix(os.path.join(folder, "socket")))
for what, name in {"of a name in Latin-1": b"latin-\xe9", "of a name of two lines": b"two\nlines", "that was moved": b"moved", "of another network": b"elsewhere"}.items():
    attempt("socket " + what, unix(os.fsencode(folder) + b"/mixed/" + name))
attempt("socket in /run", unix("/run/kimbap-test/socket"))
attempt("setns", enter)
attempt("ring", ring)
attempt("typing", typed)
attempt("descriptor", lambda: os.path.exists("/proc/self/fd/9"))
for name, command in {
    "nsenter": "nsenter -n -t %s true" % pid,
    "nsenter with users": "nsenter -U -n -t %s true" % pid,
    "link": "ip link add out type dummy && ip link del out",
    "route": "ip route add 203.0.113.0/24 dev lo && ip route del 203.0.113.0/24 dev lo",
    "uncovered": "umount /run",
    "uncovered below": "unshare -Urm umount /run",
    "the kernel's settings": "c=$(cat /proc/sys/kernel/core_pattern) && echo \"$c\" >/proc/sys/kernel/core_pattern",
    "the kernel's settings, below": "unshare -Urm sh -c 'c=$(cat /proc/sys/kernel/core_pattern) && echo \"$c\" >/proc/sys/kernel/core_pattern'",
    "the kernel's settings, anew": "unshare -Urmpf sh -c 'mount -t proc proc /mnt && c=$(cat /mnt/sys/kernel/core_pattern) && echo \"$c\" >/mnt/sys/kernel/core_pattern'",
    "a disk": "for d in /dev/[svx]d[a-z] /dev/nvme*n1; do head -c 1 $d && exit 0; done; exit 1",
    "memory of a process outside": "head -c 1 /proc/%s/environ" % pid,
    "agent": 'test -n "$SSH_AUTH_SOCK$DBUS_SESSION_BUS_ADDRESS"',
    "keys": "cat ~/.ssh/id_test ~/.aws/credentials ~/.config/gh/hosts.yml || test -s ~/.netrc",
    "kimbap's home": 'ls "$KIMBAP_HOME"/*',
}.items():
    attempt(name, shell(command))
print("end")
