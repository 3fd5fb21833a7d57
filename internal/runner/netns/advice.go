package netns

import "os"

// Advice says what the owner of the machine can change where namespaces are
// refused. root is where the system's files are: "/".
func Advice(root string) string {
	read := func(path string) string {
		data, err := os.ReadFile(root + path)
		if err != nil || len(data) == 0 {
			return ""
		}
		return string(data[:1])
	}
	there := func(path string) bool { _, err := os.Stat(root + path); return err == nil }
	switch {
	case read("proc/sys/user/max_user_namespaces") == "0":
		return "sudo sysctl user.max_user_namespaces=15000"
	case read("proc/sys/user/max_net_namespaces") == "0":
		return "sudo sysctl user.max_net_namespaces=15000"
	case read("proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "sudo sysctl kernel.unprivileged_userns_clone=1"
	case read("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for kimbap that allows userns"
	case there(".dockerenv"), there("run/.containerenv"):
		return "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or let the container's network be the wall: docs/clients.md"
	}
	return "use a Linux where a user may make namespaces (unshare -Urmn true), or leave --isolate out"
}
