package inspect

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/printable"
)

// defaultFolder is where agents keep their files if nothing else is configured.
const defaultFolder = "etc/istio/proxy"

// longestPath is Linux's limit (PATH_MAX). A longer text is not a path.
const longestPath = 4096

func shown(text string) string { return printable.Text(text, printable.Short) }

// text inspects one text: as it is, and with the escapes of Lua and JSON read.
func (w *walk) text(s string) {
	if s == "" || w.finding.Err != nil {
		return
	}
	w.plain(s)
	if strings.Contains(s, `\`) {
		w.plain(unescaped(s))
	}
}

// plain inspects each word of a text, and then the whole text as a path.
func (w *walk) plain(s string) {
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return !isWord(r) }) {
		if w.finding.Err != nil {
			return
		}
		if slices.Contains(agentClusters, word) {
			w.refuse("it names the cluster %s, which Envoy uses for its agent; name another one", word)
		}
		if len(word) < len(s) && strings.Contains(word, "/") {
			w.path(word)
		}
	}
	if w.finding.Err == nil {
		w.path(s)
	}
}

// isWord reports whether a path or the name of a cluster may have a character, as far as text in code is searched for them.
func isWord(r rune) bool {
	return r >= 0x80 || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@~:", r)
}

// path refuses a text that, read as a path, leads to the agent's folder, to processes, or to a key or token.
func (w *walk) path(s string) {
	if len(s) > longestPath || strings.ContainsAny(s, "\x00\n") {
		return
	}
	for _, scheme := range []string{"file:", "unix:"} {
		s = strings.TrimPrefix(s, scheme)
	}
	if w.within(s) || w.resolvesWithin(s) {
		w.refuse("it names %s, which is in the agent's folder or of the system's processes", shown(s))
	} else if !w.pair && isCredential(elements(s)) {
		w.refuse("it names %s, which holds a key or a token of the workload; keys are for TLS alone", shown(s))
	}
}

// elements splits a path. Leading ".." are left out: they say nothing when the working folder is not known.
func elements(s string) []string {
	out := strings.Split(strings.TrimPrefix(path.Clean("/"+s), "/"), "/")
	return slices.DeleteFunc(out, func(e string) bool { return e == "" })
}

// within compares a path as it is written.
func (w *walk) within(s string) bool {
	e := elements(s)
	if len(e) == 0 || !strings.Contains(s, "/") {
		return false
	}
	if e[0] == "proc" || e[0] == "dev" && len(e) > 1 && e[1] == "fd" {
		return true
	}
	if holds(e, elements(defaultFolder)) {
		return true
	}
	own := elements(w.Folder)
	switch {
	case len(own) == 0:
		return false
	case strings.HasPrefix(w.Folder, "/") && strings.HasPrefix(s, "/"):
		return len(e) >= len(own) && slices.Equal(e[:len(own)], own)
	case len(own) > 1:
		return holds(e, own)
	}
	return e[0] == own[0]
}

// holds reports whether a path has these elements one after the other.
func holds(e, part []string) bool {
	for i := 0; i+len(part) <= len(e); i++ {
		if slices.Equal(e[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// resolvesWithin compares the place that a path leads to on this machine.
func (w *walk) resolvesWithin(s string) bool {
	if w.Resolve == nil {
		return false
	}
	to := w.Resolve(s)
	if to == "" {
		return false
	}
	below := func(folder string) bool { return folder != "" && (to == folder || strings.HasPrefix(to, folder+"/")) }
	return below("/proc") || below(w.Resolve(w.Folder))
}

// isCredential reports whether a path is that of a token or private key which is put into a workload: by Kubernetes, by Istio's
// injection, or by a provider of certificates.
func isCredential(e []string) bool {
	if len(e) > 0 && e[0] == "var" {
		e = e[1:]
	}
	if len(e) < 3 || e[0] != "run" || e[1] != "secrets" {
		return len(e) == 3 && e[0] == "etc" && e[1] == "certs" && e[2] == "key.pem"
	}
	last := e[len(e)-1]
	return e[2] == "tokens" || strings.HasPrefix(e[2], "workload-spiffe") && last == "private_key.pem" ||
		last == "token" || last == "key.pem"
}

// escapes are those of Lua and JSON that write a character by its number, and an escaped slash.
var escapes = regexp.MustCompile(`\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,6}\}|[0-9]{1,3}|/)`)

func unescaped(s string) string {
	return escapes.ReplaceAllStringFunc(s, func(e string) string {
		digits, base := strings.Trim(e[1:], "xu{}"), 16
		switch {
		case e == `\/`:
			return "/"
		case e[1] != 'x' && e[1] != 'u':
			base = 10
		}
		n, err := strconv.ParseUint(digits, base, 32)
		if err != nil || n > 0x10ffff {
			return e
		}
		return string(rune(n))
	})
}
