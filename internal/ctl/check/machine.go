package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"fairway/internal/disk"
	"fairway/internal/identity"
)

const machinePage = "docs/operate/check.md#machines"

// onMachine checks this machine for an agent.
func onMachine(ctx context.Context, o options) []Result {
	r := &results{part: "this machine", page: machinePage}
	kernel(r)
	ports(ctx, r)
	rules(r, o.rules)
	account(r)
	if o.files != "" {
		files(r, o.files)
	}
	if o.discovery != "" {
		controlPlane(ctx, r, o)
	}
	return r.all
}

// kernel judges the operating system.
func kernel(r *results) {
	if runtime.GOOS != "linux" {
		r.add(Failed, "system", runtime.GOOS, "agents run on Linux")
		return
	}
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		r.unknown("kernel", err, "mount /proc")
		return
	}
	release := strings.TrimSpace(string(text))
	v, ok := minor(release)
	switch {
	case ok && (v[0] < 4 || v[0] == 4 && v[1] < 19):
		r.add(Failed, "kernel", release, "use Linux 4.19 or later: docs/operate/support.md")
	case ok && (v[0] < 5 || v[0] == 5 && v[1] < 14):
		r.add(Warning, "kernel", release, "before 5.14 a hot restart with fewer threads is put off until the next cold start")
	default:
		r.ok("kernel", "%s", release)
	}
}

// machinePorts are those of an agent and its Envoy; docs/operate/ports.md has them.
var machinePorts = []int{15000, 15001, 15006, 15020, 15021, 15053, 15090}

// ports looks whether the ports are free.
func ports(ctx context.Context, r *results) {
	var taken []string
	for _, p := range machinePorts {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(p))
		if err != nil {
			taken = append(taken, strconv.Itoa(p))
			continue
		}
		l.Close()
	}
	if len(taken) > 0 {
		r.add(Warning, "ports", strings.Join(taken, ", ")+" are taken",
			"if that is not an agent, give the program another port (ss -lntp names it); docs/operate/ports.md has those to change")
		return
	}
	r.ok("ports", "those of an agent are free")
}

// rules looks for what intercepts connections.
func rules(r *results, wanted string) {
	if wanted == "none" {
		r.add(Unused, "kernel rules", "connections are not intercepted", "")
		return
	}
	has := func(module string, program string) (string, bool) {
		path, err := exec.LookPath(program)
		if err == nil {
			return path, true
		}
		if _, err := os.Stat("/sys/module/" + module); err == nil {
			return "the kernel's " + module, true
		}
		return "", false
	}
	nft, hasNft := has("nf_tables", "nft")
	ipt, hasIpt := has("ip_tables", "iptables-restore")
	switch {
	case wanted != "iptables" && hasNft:
		r.ok("kernel rules", "nftables: %s", nft)
	case wanted != "nftables" && hasIpt:
		r.ok("kernel rules", "iptables: %s", ipt)
	default:
		what := "neither nftables nor iptables is"
		if wanted != "auto" {
			what = wanted + " is not"
		}
		r.add(Failed, "kernel rules", what+" here",
			"modprobe nf_tables, or install iptables; --intercept none if applications call Envoy's ports themselves")
	}
}

// account looks for the user that Envoy runs as.
func account(r *results) {
	if u, err := user.Lookup("istio-proxy"); err == nil {
		r.ok("user", "istio-proxy is %s", u.Uid)
		return
	}
	r.add(Warning, "user", "there is no istio-proxy",
		"useradd --system istio-proxy, as the packages do; interception needs an agent with a user of its own")
}

// mostFile bounds a file that is read, in bytes.
const mostFile = 1 << 20

// files checks the folder of pilotctl workload.
func files(r *results, dir string) {
	for _, name := range []string{"cluster.env", "mesh.yaml", "root-cert.pem"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			r.add(Failed, name, "it is not in "+dir, "pilotctl workload config writes it: copy the whole folder")
		}
	}
	text, err := disk.Stream(filepath.Join(dir, "root-cert.pem"), mostFile)
	if err != nil {
		return
	}
	roots, err := identity.Certificates(text)
	if err != nil {
		r.add(Failed, "root-cert.pem", err.Error(), "take the control plane's: pilotctl workload config writes it")
		return
	}
	for _, c := range roots {
		r.expires("root "+c.Subject.String(), c.NotBefore, c.NotAfter, time.Now(),
			"take the control plane's present roots: pilotctl workload config writes them")
	}
}

// controlPlane reaches the address that an agent will connect to: its name, its port, its certificate.
func controlPlane(ctx context.Context, r *results, o options) {
	r.part = "control plane"
	host, port, err := net.SplitHostPort(o.discovery)
	if err != nil {
		r.add(Failed, "address", err.Error(), "write it as istiod.example:15012")
		return
	}
	ctx, stop := context.WithTimeout(ctx, each)
	defer stop()
	if addresses, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
		r.add(Failed, "name of it", err.Error(), "add the name to /etc/hosts (pilotctl workload writes such a file), or to DNS")
		return
	} else if net.ParseIP(host) == nil {
		r.ok("name of it", "%s is %s", host, some(addresses))
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", o.discovery)
	if err != nil {
		r.add(Failed, "port "+port, err.Error(), "open it in firewalls between this machine and the control plane: docs/operate/ports.md")
		return
	}
	defer conn.Close()
	r.ok("port "+port, "it can be reached")
	// The chain is verified below, so that the error names the mistake.
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: host, NextProtos: []string{"h2"}}) //nolint:gosec
	if err := secure.HandshakeContext(ctx); err != nil {
		r.add(Failed, "TLS handshake", err.Error(),
			"is this the control plane's --secureGRPCAddr (15012)? A port in plaintext does not speak TLS")
		return
	}
	chain := secure.ConnectionState().PeerCertificates
	r.expires("certificate of the control plane", chain[0].NotBefore, chain[0].NotAfter, time.Now(),
		"look into the control plane's log: it renews it by itself")
	believed(r, o, host, chain)
}

// believed verifies the control plane's certificate with the roots that the agent will have.
func believed(r *results, o options, host string, chain []*x509.Certificate) {
	if o.files == "" {
		r.add(Unused, "root", "--files names the folder with the roots to verify it by", "")
		return
	}
	text, err := disk.Stream(filepath.Join(o.files, "root-cert.pem"), mostFile)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // files has said so
			r.unknown("root", err, "make the folder readable")
		}
		return
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: identity.Intermediates(chain), DNSName: host})
	if err != nil {
		r.add(Failed, "root", fmt.Sprintf("an agent will not believe %s: %v", o.discovery, err),
			"use a name of the certificate, and the roots of this control plane (pilotctl workload config)")
		return
	}
	r.ok("root", "root-cert.pem verifies it")
}
