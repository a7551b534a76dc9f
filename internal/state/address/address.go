// Package address reads --state: where control planes keep what they share.
package address

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/state"
	"fairway/internal/state/consul"
	"fairway/internal/state/etcd"
	"fairway/internal/store"
)

// Usage is what --state may be.
const Usage = "file, etcd://HOST:2379,HOST:2379/PREFIX or consul://HOST:8500/PREFIX, with ?tls=true&caFile=…&certFile=…&keyFile=…&" +
	"serverName=…&username=…&passwordFile=…&tokenFile=…"

const (
	defaultPrefix = "/fairway/default/.state"
	longestPrefix = 256
	longest       = 8 << 10
)

// Address is a parsed --state.
type Address struct {
	Kind   string // "etcd", "consul"; empty: files
	Reach  servers.Reach
	Prefix string
}

// Parse reads --state; empty is file.
func Parse(text string) (Address, error) {
	if text == "" || text == "file" {
		return Address{}, nil
	}
	fail := func(format string, args ...any) (Address, error) {
		return Address{}, fmt.Errorf("--state: "+format+"; want "+Usage, args...)
	}
	kind, rest, ok := strings.Cut(text, "://")
	if !ok || kind != "etcd" && kind != "consul" || len(text) > longest {
		return fail("%q", printable.Text(text, printable.Short))
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, prefix, _ := strings.Cut(rest, "/")
	if strings.Contains(hosts, "@") {
		return fail("a user or password in it would be seen by all users of this machine: want username and passwordFile")
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return fail("%s", strings.ReplaceAll(err.Error(), "%", "%%"))
	}
	a := Address{Kind: kind, Prefix: defaultPrefix}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		a.Prefix = "/" + prefix
	}
	if !printable.Is(a.Prefix, longestPrefix) || strings.Contains(a.Prefix, " ") || strings.Contains(a.Prefix, "//") {
		return fail("its prefix has more than %d bytes, or others than printable ones", longestPrefix)
	}
	secure, err := a.options(options)
	if err != nil {
		return fail("%w", err)
	}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		a.Reach.URLs = append(a.Reach.URLs, scheme+host)
	}
	if err := a.validate(); err != nil {
		return fail("%w", err)
	}
	return a, nil
}

func (a *Address) options(all url.Values) (secure bool, err error) {
	r := &a.Reach
	texts := map[string]*string{
		"caFile": &r.CAFile, "certFile": &r.CertFile, "keyFile": &r.KeyFile, "serverName": &r.ServerName,
		"username": &r.Username, "passwordFile": &r.PasswordFile, "tokenFile": &r.TokenFile,
	}
	for name, values := range all {
		to := texts[name]
		switch {
		case len(values) != 1:
			return false, fmt.Errorf("%s: it is there %d times", printable.Text(name, printable.Short), len(values))
		case to != nil:
			*to = values[0]
		case name == "tls":
			if secure, err = strconv.ParseBool(values[0]); err != nil {
				return false, errors.New("tls: want true or false")
			}
		default:
			return false, fmt.Errorf("unknown option %q", printable.Text(name, printable.Short))
		}
	}
	files := r.CAFile != "" || r.CertFile != "" || r.ServerName != ""
	if files && all.Has("tls") && !secure {
		return false, errors.New("tls=false: caFile, certFile and serverName are for TLS")
	}
	return secure || files, nil
}

func (a *Address) validate() error {
	if a.Kind == "etcd" {
		return store.Reach{Reach: a.Reach}.Validate()
	}
	for _, u := range a.Reach.URLs {
		at, err := url.Parse(u)
		if err != nil || at.Port() == "" {
			return fmt.Errorf("%q: want HOST:PORT", printable.Text(u, printable.Short))
		}
		local := slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, at.Hostname())
		if at.Scheme == "http" && !local && (a.Reach.TokenFile != "" || a.Reach.Username != "") {
			return fmt.Errorf("%s is asked in plaintext, where others could read the token: want tls=true", at.Host)
		}
	}
	return a.Reach.Validate()
}

// Open returns the store; nil: files. It makes no call.
func (a Address) Open() (state.Store, error) {
	switch a.Kind {
	case "etcd":
		return etcd.Open(store.Reach{Reach: a.Reach}, a.Prefix)
	case "consul":
		return consul.Open(a.Reach, a.Prefix)
	}
	return nil, nil
}
