package rig

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"testing"
)

// ControlPlane is a pilot-discovery. Path and Dir must be set. An empty address is not served.
type ControlPlane struct {
	Command // Args name what it reads, and more; Name is pilot-discovery by default

	GRPC, Secure, HTTP, HTTPS, Monitoring string // addresses
	Shutdown                              string // how long it waits for its clients when it is stopped; 10ms by default
}

// Launch starts the control plane, and returns once it is ready; without HTTP at once. See the function Launch.
func (c ControlPlane) Launch(t testing.TB) *Process {
	t.Helper()
	command := c.Command
	command.Name = cmp.Or(c.Name, "pilot-discovery")
	command.Args = append([]string{
		"discovery", "--grpcAddr=" + c.GRPC, "--secureGRPCAddr=" + c.Secure, "--httpAddr=" + c.HTTP, "--httpsAddr=" + c.HTTPS,
		"--monitoringAddr=" + c.Monitoring, "--shutdownDuration=" + cmp.Or(c.Shutdown, "10ms"),
	}, c.Args...)
	p := Launch(t, command)
	if c.HTTP == "" {
		return p
	}
	host, port, err := net.SplitHostPort(c.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	page := "http://" + net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port) + "/ready"
	dial := new(net.Dialer).DialContext
	if c.In != nil {
		dial = c.In.DialContext
	}
	Eventually(t, func() error {
		p.Running(t)
		code, body, err := Call(http.MethodGet, page, dial)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%s: %d %s", page, code, body)
		}
		return err
	})
	return p
}
