package peer

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFind: the kernel's table in its own spelling, of both families.
func TestFind(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:3A98 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1 0000000000000000 100 0 0 10 0
   1: 0100007F:D431 0100007F:3A98 01 00000000:00000000 00:00000000 00000000  1337        0 4711 1 0000000000000000 20 4 30 10 -1
   2: 0000000000000000FFFF00000100007F:D432 0000000000000000FFFF00000100007F:3A98 01 00000000:00000000 00:00000000 00000000     7        0 4712 1 0 20 4 30 10 -1
   3: garbage
`
	at := netip.MustParseAddrPort("127.0.0.1:15000")
	for port, want := range map[uint16]Caller{0xD431: {1337, "4711"}, 0xD432: {7, "4712"}} {
		if got, err := find(strings.NewReader(table), netip.AddrPortFrom(at.Addr(), port), at); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	if _, err := find(strings.NewReader(table), netip.MustParseAddrPort("127.0.0.1:1"), at); err == nil {
		t.Error("somebody is found who is not there")
	}
}

func FuzzTable(f *testing.F) {
	f.Add("   1: 0100007F:D431 0100007F:3A98 01 0:0 00:0 0  1337        0 4711 1 0 20 4 30 10 -1\n")
	f.Add("1: 0:0 : 0 0 0 0 x 0 y")
	f.Fuzz(func(t *testing.T, table string) {
		c, err := find(strings.NewReader(table), netip.MustParseAddrPort("127.0.0.1:54321"), netip.MustParseAddrPort("127.0.0.1:15000"))
		if err == nil && c.inode == "" {
			t.Fatal("a caller without a socket")
		}
	})
}

// gated starts a server with pages behind a gate.
func gated(t *testing.T, g *Gate) string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", g.Read(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("shown")) }))
	mux.HandleFunc("POST /", g.Change(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("changed")) }))
	s := httptest.NewUnstartedServer(mux)
	s.Config.ConnContext = Connected
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

func ask(t *testing.T, method, url, token, from string) int {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("x-fairway-token", token)
	}
	dialer := net.Dialer{Timeout: time.Minute}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestGate: what changes something asks for the token; what shows something is not for Envoys, nor for what they hand on from others.
func TestGate(t *testing.T) {
	envoys := []int{}
	here := gated(t, &Gate{Token: "secret", Envoys: func() []int { return envoys }})
	for _, c := range []struct {
		method, token, from string
		want                int
	}{
		{"POST", "", "", 403}, {"POST", "x", "", 403}, {"POST", "secret", "", 200}, {"POST", "secret", "127.0.0.6", 403},
		{"GET", "", "", 200}, {"GET", "", "127.0.0.3", 200}, {"GET", "", "127.0.0.6", 403},
	} {
		if got := ask(t, c.method, here, c.token, c.from); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	envoys = []int{os.Getpid()} // this test is one
	if got := ask(t, "GET", here, "", ""); got != 403 {
		t.Errorf("an Envoy reads: %d", got)
	}
	if got := ask(t, "GET", here, "secret", ""); got != 200 {
		t.Errorf("with the token: %d", got)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := gated(t, &Gate{Token: "secret", Envoys: func() []int { return nil }, Program: func() string { return program }})
	if got := ask(t, "GET", other, "", ""); got != 403 {
		t.Errorf("another agent's Envoy reads: %d", got)
	}
	if got := ask(t, "POST", gated(t, &Gate{}), "", ""); got != 403 {
		t.Errorf("without a token set, somebody changes something: %d", got)
	}
}

// TestOtherUsers: with Own, the agent's user and root may read, and other users of the machine may not.
func TestOtherUsers(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if os.Geteuid() != 0 || err != nil {
		t.Skip("wants root and curl")
	}
	here := gated(t, &Gate{Envoys: func() []int { return nil }, Own: true})
	for uid, want := range map[uint32]string{0: "200", 65534: "403"} {
		c := exec.Command(curl, "-s", "-o", "/dev/null", "-w", "%{http_code}", here)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if out, err := c.Output(); err != nil || string(out) != want {
			t.Errorf("user %d: %s, %v; want %s", uid, out, err, want)
		}
	}
}
