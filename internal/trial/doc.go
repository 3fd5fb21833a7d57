// Package trial tries a service file before anybody relies on it (`kimbap service
// test`): each action's request is built, must be recognised as that action again,
// and is compared with a case that stands beside the file; answers come from an
// upstream that is named, or were recorded before.
//
// It opens no home, has no credential and sends none, and without being told sends
// nothing to the upstream that is above low risk.
//
// Start reading at [Run].
package trial
