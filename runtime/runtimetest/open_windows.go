package runtimetest

import (
	"testing"

	"golang.org/x/sys/windows"
)

// Open lets everybody on the machine read a file or folder.
func Open(t testing.TB, path string) {
	t.Helper()
	sd, err := windows.SecurityDescriptorFromString("D:P(A;;FA;;;OW)(A;;FR;;;WD)")
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := sd.DACL()
	if err == nil {
		err = windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION, nil, nil, list, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}
