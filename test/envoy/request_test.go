package envoy

import (
	"crypto/tls"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairway/test/envoy/live"
)

var method = regexp.MustCompile(`^[A-Z]+$`)

// request reads the words of a REQUEST, and gives those of the ANSWER, which come after "->":
//
//	[METHOD] HOST[:PORT][/PATH] [WORD]…
//
// A word with a colon is a header ("x-user:ann"). These words have an equals sign:
//
//	from=other         the request is made beside the workload of this sidecar; the default is client
//	port=8001          its port, instead of 8000
//	as=NAME            mutual TLS with an identity that the script made
//	to=NAME:PORT       a gateway's, or any other, address in the place of a sidecar
//	by=NAME            the client's own address
//	body=TEXT          the body of the request
//	sni= trust= cert=  TLS: the server name, the trusted authority (without it, any), the certificate to show;
//	tls= cipher= curve= the version (1.2), a cipher suite by its name of Go, a curve (P-256)
//
// The word http2 has the client speak HTTP/2.
func (s *script) request(args []string) (r live.Request, answer []string, err error) {
	end := slices.Index(args, "->")
	if end < 1 {
		return r, nil, fmt.Errorf("REQUEST -> ANSWER, not %q", args)
	}
	words, answer := args[:end], args[end+1:]
	from, port := client, live.HTTPPort
	secure, encrypted := &tls.Config{InsecureSkipVerify: true}, false
	if method.MatchString(words[0]) && len(words) > 1 {
		r.Method, words = words[0], words[1:]
	}
	r.Host, r.Path, _ = strings.Cut(words[0], "/")
	r.Path = "/" + r.Path
	for _, word := range words[1:] {
		name, sign, value := split(word)
		known := false
		if sign == '=' {
			if known, err = s.certified.client(secure, name, value); err != nil {
				return r, nil, err
			}
		}
		switch {
		case known:
			encrypted = true
		case sign == ':':
			r = with(r, name, value)
		case word == "http2":
			r.HTTP2 = true
		case name == "body":
			r.Body = value
		case name == "by":
			r.Dial = live.Bound(s.m.IP(value))
		case name == "as":
			own, ok := s.identities[value]
			if !ok {
				return r, nil, fmt.Errorf("the script has no identity %q", value)
			}
			r.TLS = asWorkload(own)
		case name == "from":
			from = value
		case name == "port":
			if port, err = strconv.Atoi(value); err != nil {
				return r, nil, err
			}
		case name == "to":
			if r.To, err = s.address(value); err != nil {
				return r, nil, err
			}
		default:
			return r, nil, fmt.Errorf("no word of a request: %q", word)
		}
	}
	if encrypted {
		r.TLS = secure
	}
	if r.To == "" {
		r.To = s.m.Addr(from+"-egress", port)
	}
	return r, answer, nil
}

// address is where "NAME:PORT" is in this mesh.
func (s *script) address(at string) (string, error) {
	name, text, err := net.SplitHostPort(at)
	if err != nil {
		return "", err
	}
	port, err := strconv.Atoi(text)
	return s.m.Addr(name, port), err
}

// split parts a word at its first colon or equals sign.
func split(word string) (name string, sign byte, value string) {
	i := strings.IndexAny(word, ":=")
	if i < 0 {
		return word, 0, ""
	}
	return word[:i], word[i], word[i+1:]
}

// check compares a reply with the words of an ANSWER:
//
//	200 or !200             its status
//	x-route:one             a header of it; "x-route:" has none
//	body="two\nwords"       its body, quoted or as it is
//	took=190ms..10s         how long it took
//	server=v1               the backend that answered, and what that backend received
//	path= host= sni=        the path with its query, the authority, the server name,
//	protocol=HTTP/2.0       the version of HTTP,
//	proxy=2                 the version of the PROXY header before it,
//	seen.x-route:one        a header, several values joined by commas
//	tls=1.3 cert=a.test     the version of TLS, and the name of the server's certificate
//	has=TEXT                a text that is in what the backend received ("received" alone)
//
// The only word "closed" is not an answer at all.
func check(r live.Reply, answer []string) error {
	for _, word := range answer {
		got, want, err := part(r, word)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf(
				"%q is wanted, not %q; status %d of %q, headers %v, body %q",
				word, got, r.Status, r.Echo.Server, r.Header, r.Body,
			)
		}
	}
	return nil
}

// part returns the value that a word of an answer refers to, and the wanted value.
func part(r live.Reply, word string) (got, want string, err error) {
	name, sign, want := split(word)
	if header, ok := strings.CutPrefix(name, "seen."); ok && sign == ':' {
		return strings.Join(r.Echo.Header.Values(header), ","), want, nil
	}
	switch {
	case sign == ':':
		return r.Header.Get(name), want, nil
	case sign == 0:
		status := strconv.Itoa(r.Status)
		if other, not := strings.CutPrefix(word, "!"); not && status != other {
			return word, word, nil
		}
		return status, word, nil
	}
	if strings.HasPrefix(want, `"`) {
		if want, err = strconv.Unquote(want); err != nil {
			return "", "", fmt.Errorf("%s: %w", word, err)
		}
	}
	switch name {
	case "server":
		return r.Echo.Server, want, nil
	case "path":
		return r.Echo.Path, want, nil
	case "host":
		return r.Echo.Host, want, nil
	case "protocol":
		return r.Echo.Protocol, want, nil
	case "sni":
		return r.Echo.SNI, want, nil
	case "proxy":
		return r.Echo.Proxy, want, nil
	case "tls", "cert":
		return shown(r.TLS, name), want, nil
	case "has":
		if strings.Contains(r.Echo.Body, want) {
			return want, want, nil
		}
		return r.Echo.Body, want, nil
	case "body":
		return r.Body, want, nil
	case "took":
		within, err := between(want, int64(r.Took), func(s string) (int64, error) {
			d, err := time.ParseDuration(s)
			return int64(d), err
		})
		if within {
			return want, want, err
		}
		return r.Took.String(), want, err
	}
	return "", "", fmt.Errorf("no word of an answer: %q", word)
}

// between reports whether a value is in a range, "53..147", "1..", "..250" or "20".
func between(text string, value int64, parse func(string) (int64, error)) (bool, error) {
	low, high, ranged := strings.Cut(text, "..")
	if !ranged {
		high = low
	}
	for _, end := range []struct {
		text  string
		wrong func(int64) bool
	}{
		{low, func(n int64) bool { return value < n }},
		{high, func(n int64) bool { return value > n }},
	} {
		if end.text == "" {
			continue
		}
		n, err := parse(end.text)
		if err != nil || end.wrong(n) {
			return false, err
		}
	}
	return true, nil
}

// shares compares the numbers of answers with the words of SHARES: "v1=20", "v2=1..", "v3=*" for the rest.
func shares(n int, got map[string]int, words []string) error {
	left := n
	for _, word := range words {
		i := strings.LastIndexByte(word, '=')
		if i < 0 {
			return fmt.Errorf("no word of shares: %q", word)
		}
		who, want := word[:i], word[i+1:]
		left -= got[who]
		if want == "*" {
			continue
		}
		ok, err := between(want, int64(got[who]), func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%q is wanted of %v", word, got)
		}
	}
	if left != 0 {
		return fmt.Errorf("others than %q are among %v", words, got)
	}
	return nil
}

// TestAnswers: what answers and shares are compared with can be wrong.
func TestAnswers(t *testing.T) {
	r := live.Reply{Status: 200, Header: map[string][]string{"X-Route": {"one"}}, Body: "a\nb", Took: time.Second}
	r.Echo = live.Echo{Server: "v1", Path: "/p?q=1", Host: "h:80", Header: map[string][]string{"X-Add": {"a", "b"}}}
	right := []string{
		"200", "!503", "x-route:one", "x-none:", `body="a\nb"`, "took=1s..", "took=..2s", "server=v1", "path=/p?q=1",
		"host=h:80", "sni=", "seen.x-add:a,b", "seen.x-none:",
	}
	if err := check(r, right); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{
		"201", "!200", "x-route:two", "x-route:", "body=a", "took=2s..", "took=..1ms", "server=v2", "server=", "path=/p", "host=h",
		"sni=x", "seen.x-add:a", "client=x", "took=much",
	} {
		if check(r, []string{wrong}) == nil {
			t.Errorf("%s is not seen to be wrong", wrong)
		}
	}
	got := map[string]int{"a": 3, "b": 7}
	for words, ok := range map[string]bool{
		"a=3 b=7": true, "a=1.. b=*": true, "a=..3 b=6..8": true, "a=3": false, "a=4 b=*": false, "a=* b=8..": false, "a=3 b=6": false,
		"a=3 b=7 c=1..": false, "a=x b=*": false, "": false,
	} {
		if err := shares(10, got, strings.Fields(words)); (err == nil) != ok {
			t.Errorf("%q: %v", words, err)
		}
	}
}
