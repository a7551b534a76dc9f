package check

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestControlPlaneOfAMachine: the name, the port, TLS, and whether the machine's roots verify the certificate.
func TestControlPlaneOfAMachine(t *testing.T) {
	own, foreign := year(t, "localhost"), year(t, "localhost")
	ended := issue(t, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))
	early := issue(t, time.Now().Add(time.Hour), time.Now().Add(2*time.Hour))
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	go func() {
		for {
			conn, err := plain.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			conn.Close()
		}
	}()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, c := range []struct {
		name, discovery string
		roots           []byte
		want            string
	}{
		{"good", serve(t, own), own.pem, ""},
		{"foreign", serve(t, own), foreign.pem, "failed root: an agent will not believe 127.0.0.1:"},
		{"ended", serve(t, ended), ended.pem, "failed certificate of the control plane: it ended at "},
		{"early", serve(t, early), early.pem, "failed certificate of the control plane: it is valid only from "},
		{"plaintext", plain.Addr().String(), own.pem, "failed TLS handshake: "},
		{"closed", closed.Addr().String(), own.pem, "failed port "},
		{"name", "no-such-host.invalid:15012", own.pem, "failed name of it: "},
		{"address", "istiod.example", own.pem, "failed address: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "root-cert.pem"), c.roots, 0o600); err != nil {
				t.Fatal(err)
			}
			r := &results{part: "control plane", page: machinePage}
			controlPlane(t.Context(), r, options{discovery: c.discovery, files: dir})
			bad := lines(slices.DeleteFunc(slices.Clone(r.all), func(r Result) bool { return r.State == OK }))
			if !strings.HasPrefix(bad, c.want) || (c.want == "") != (bad == "") {
				t.Errorf("got\n%swant %q", lines(r.all), c.want)
			}
		})
	}
}

// TestFilesOfAMachine: a missing file, and roots that are none or at their end, are named.
func TestFilesOfAMachine(t *testing.T) {
	const absent = "failed cluster.env: it is not in DIR\nfailed mesh.yaml: it is not in DIR\n"
	good := year(t).pem
	ended := issue(t, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)).pem
	soon := issue(t, time.Now().Add(-365*24*time.Hour), time.Now().Add(time.Hour)).pem
	for name, c := range map[string]struct {
		roots []byte
		want  string
	}{
		"good":  {good, absent + "ok root CN=root: valid until "},
		"none":  {nil, absent + "failed root-cert.pem: no certificate in PEM\n"},
		"text":  {[]byte("hello"), absent + "failed root-cert.pem: no certificate in PEM\n"},
		"cut":   {slices.Concat(good, good[:len(good)/2]), absent + "failed root-cert.pem: 1 of 2 certificates cannot be read"},
		"notes": {slices.Concat(good, []byte("\nof the mesh\n")), absent + "ok root CN=root: valid until "},
		"ended": {ended, absent + "failed root CN=root: it ended at "},
		"soon":  {soon, absent + "warning root CN=root: it ends at "},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "root-cert.pem"), c.roots, 0o600); err != nil {
			t.Fatal(err)
		}
		r := &results{part: "this machine", page: machinePage}
		files(r, dir)
		if got := strings.ReplaceAll(lines(r.all), dir, "DIR"); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got\n%swant\n%s", name, got, c.want)
		}
	}
}

// TestSkew: control planes of one release, of two that follow each other, and of two that do not.
func TestSkew(t *testing.T) {
	for _, c := range []struct {
		versions []string
		own      string
		want     string
	}{
		{[]string{"0.1.0"}, "0.1.0", "ok versions: all are 0.1.0\n"},
		{[]string{"0.1.0", "0.1.1"}, "0.1.1", "warning versions: an upgrade is under way: 0.1.0 (p0), 0.1.1 (p1)\n"},
		{[]string{"0.1.0", "0.3.0"}, "0.2.0", "failed versions: more than one release apart: 0.1.0 (p0), 0.3.0 (p1)\n"},
		{[]string{"0.1.0"}, "0.4.0", "ok versions: all are 0.1.0\nwarning pilotctl: it is 0.4.0, and a control plane is 0.1.0\n"},
		{[]string{"0.1.0-rc.1"}, "test", "ok versions: all are 0.1.0-rc.1\n"},
		{nil, "0.1.0", ""},
	} {
		of := map[string][]string{}
		for i, v := range c.versions {
			of[v] = append(of[v], "p"+string(rune('0'+i)))
		}
		r := &results{part: "control planes", page: planesPage}
		if skew(r, of, c.own); lines(r.all) != c.want {
			t.Errorf("%v and %s: got\n%swant\n%s", c.versions, c.own, lines(r.all), c.want)
		}
	}
}
