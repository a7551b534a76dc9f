package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/source/platform"
)

// Options say which ensemble is read, and how.
type Options struct {
	// Naming's Host is the template of the hosts of interfaces: {name} is the interface, {group} and {version} are those of
	// providers; empty: "{name}.{group}.{version}.dubbo".
	platform.Naming
	// Missing says how long things stay that a new session does not find: after an outage providers register again in their own
	// time; empty: 60s.
	platform.Missing
	// ApplicationHost is the template of the hosts of applications; empty: "{name}.dubbo".
	ApplicationHost string `json:"applicationHost,omitempty"`

	// Servers are host:port of the ensemble's; a port that is left out is 2181.
	Servers []string `json:"servers"`
	// Chroot is the node that everything is below; empty: the root.
	Chroot string `json:"chroot,omitempty"`
	// InterfaceRoot is the node below which interfaces are registered; empty: "/dubbo"; "none": they are not read.
	InterfaceRoot string `json:"interfaceRoot,omitempty"`
	// ApplicationRoot is the node below which applications are registered; empty: "/services"; "none": they are not read.
	ApplicationRoot string `json:"applicationRoot,omitempty"`
	// Labels are further parameters of providers' URLs that become labels of endpoints.
	Labels []string `json:"labels,omitempty"`

	// TLS has servers spoken to by TLS, with the files below as servers.Reach has them.
	TLS                bool   `json:"tls,omitempty"`
	CAFile             string `json:"caFile,omitempty"`
	CertFile           string `json:"certFile,omitempty"`
	KeyFile            string `json:"keyFile,omitempty"`
	ServerName         string `json:"serverName,omitempty"`
	InsecureSkipVerify bool   `json:"insecureSkipVerify,omitempty"`
	// Username, and the password in PasswordFile, are shown by the scheme "digest". The file is looked at every few seconds.
	Username     string `json:"username,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`

	// SessionTimeoutSeconds is how long the ensemble keeps the session of a client that is away; 0: 15. Watches outlive
	// connections as long.
	SessionTimeoutSeconds int `json:"sessionTimeoutSeconds,omitempty"`
	// Concurrency is how many nodes are read at once; 0: 32.
	Concurrency int `json:"concurrency,omitempty"`
	// MaxAnswer is how many MiB an answer may have: the names of all children of a node, or its content; 0: 32.
	MaxAnswer int `json:"maxAnswerMiB,omitempty"`
	// MaxServices is how many interfaces, and how many applications, are read; 0: 100,000. MaxInstances is how many providers
	// and instances of all of them together; 0: 1,000,000.
	MaxServices  int `json:"maxServices,omitempty"`
	MaxInstances int `json:"maxInstances,omitempty"`
	// MaxBytes bounds the estimated memory of the state; 0: 96 MiB. A node beyond it keeps its earlier content.
	MaxBytes int64 `json:"maxBytes,omitempty"`
}

// none is the root that is not read.
const none = "none"

const (
	interfaceHost   = "{name}.{group}.{version}.dubbo"
	applicationHost = "{name}.dubbo"
	mostServers     = 32
	defaultKeep     = time.Minute
	mostLabels      = 50
)

// Validate returns every mistake as an error.
func (o Options) Validate() error {
	errs := []error{o.Naming.Validate("group", "version"), o.Missing.Validate()}
	for _, template := range []string{o.Host, o.Namespace} {
		if strings.Contains(template, "{namespace}") {
			errs = append(errs, errors.New("host, namespace: ZooKeeper has no namespaces for {namespace}"))
		}
	}
	if err := (platform.Naming{Host: o.ApplicationHost}).Validate(); err != nil {
		errs = append(errs, fmt.Errorf("applicationHost: %w", err))
	}
	if len(o.Servers) == 0 || len(o.Servers) > mostServers {
		errs = append(errs, fmt.Errorf("servers: there are %d; want 1 to %d as host:port", len(o.Servers), mostServers))
	}
	for i, s := range o.Servers {
		if _, err := address(s); err != nil {
			errs = append(errs, fmt.Errorf("servers[%d]: %w", i, err))
		}
	}
	for _, p := range []struct{ field, path string }{
		{"chroot", o.Chroot}, {"interfaceRoot", o.InterfaceRoot}, {"applicationRoot", o.ApplicationRoot},
	} {
		if p.path != "" && (p.path != none || p.field == "chroot") && !isPath(p.path) {
			errs = append(errs, fmt.Errorf("%s: %q is not a node; want one as /name", p.field, printable.Text(p.path, printable.Short)))
		}
	}
	if o.InterfaceRoot == none && o.ApplicationRoot == none {
		errs = append(errs, errors.New("interfaceRoot, applicationRoot: both are none, so there is nothing to read"))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("certFile, keyFile: one of them alone does nothing; give both, or neither"))
	}
	if !o.TLS && (o.CAFile != "" || o.CertFile != "" || o.ServerName != "" || o.InsecureSkipVerify) {
		errs = append(errs, errors.New("tls: it is false, so other settings of TLS have no effect; want true"))
	}
	if (o.Username == "") != (o.PasswordFile == "") || strings.Contains(o.Username, ":") {
		errs = append(errs, errors.New("username, passwordFile: want both or neither, and no ':' in the name"))
	}
	if len(o.Labels) > mostLabels {
		errs = append(errs, fmt.Errorf("labels: %d are too many; want at most %d", len(o.Labels), mostLabels))
	}
	for _, n := range []struct {
		field           string
		is, least, most int
	}{
		{"sessionTimeoutSeconds", o.SessionTimeoutSeconds, 0, 600},
		{"concurrency", o.Concurrency, 0, 256}, {"maxAnswerMiB", o.MaxAnswer, 0, 1024},
		{"maxServices", o.MaxServices, 0, 1_000_000}, {"maxInstances", o.MaxInstances, 0, 10_000_000},
	} {
		if n.is < n.least || n.is > n.most {
			errs = append(errs, fmt.Errorf("%s: %d; want %d to %d", n.field, n.is, n.least, n.most))
		}
	}
	if o.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("maxBytes: %d; want a positive number", o.MaxBytes))
	}
	return errors.Join(errs...)
}

// address returns host:port of a server.
func address(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		if host, port, err = net.SplitHostPort(text + ":2181"); err != nil {
			return "", fmt.Errorf("%q is not a server; want host:port", printable.Text(text, printable.Short))
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsAny(host, "/ ,@") {
		return "", fmt.Errorf("%q is not a server; want host:port", printable.Text(text, printable.Short))
	}
	return net.JoinHostPort(host, port), nil
}

// isPath reports whether a text names a node below the root.
func isPath(s string) bool {
	if len(s) < 2 || len(s) > 1024 || s[0] != '/' || !printable.Is(s, 1024) {
		return false
	}
	for _, part := range strings.Split(s[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// filled returns the options with every default in its place.
func (o Options) filled() Options {
	o.Naming.Namespace = cmp.Or(o.Naming.Namespace, platform.DefaultNamespace)
	o.ApplicationHost = cmp.Or(o.ApplicationHost, applicationHost)
	o.InterfaceRoot, o.ApplicationRoot = cmp.Or(o.InterfaceRoot, "/dubbo"), cmp.Or(o.ApplicationRoot, "/services")
	o.SessionTimeoutSeconds = cmp.Or(o.SessionTimeoutSeconds, 15)
	o.Concurrency = cmp.Or(o.Concurrency, 32)
	o.MaxAnswer = cmp.Or(o.MaxAnswer, 32)
	o.MaxBytes = cmp.Or(o.MaxBytes, platform.DefaultBytes)
	o.MaxServices, o.MaxInstances = cmp.Or(o.MaxServices, 100_000), cmp.Or(o.MaxInstances, 1_000_000)
	return o
}

// reach has what platform knows to do with files.
func (o Options) reach() servers.Reach {
	return servers.Reach{
		CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile, ServerName: o.ServerName,
		InsecureSkipVerify: o.InsecureSkipVerify, Username: o.Username, PasswordFile: o.PasswordFile,
	}
}

func (o Options) sessionTimeout() time.Duration {
	return time.Duration(o.SessionTimeoutSeconds) * time.Second
}
