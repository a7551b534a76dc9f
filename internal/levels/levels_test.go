package levels

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

var scopes = []Scope{
	{Audit, "decisions", nil},
	{Default, "everything else", nil},
	{"levels", "this package", []string{"levels"}},
	{"kube", "API servers", []string{"source/kube"}},
	{"source", "all sources", []string{"source"}},
}

func levelsOf(t *testing.T, text string) *Levels {
	t.Helper()
	l, err := New(text, scopes)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// shown returns the levels as one text.
func shown(l *Levels) string {
	var out []string
	for _, s := range l.List() {
		out = append(out, s.Name+":"+s.OutputLevel)
	}
	return strings.Join(out, " ")
}

// TestStart: a bare level, and Istio's lists of scope:level. Unlisted scopes have the level of default, or of all.
func TestStart(t *testing.T) {
	for text, want := range map[string]string{
		"debug":                   "audit:debug default:debug levels:debug kube:debug source:debug",
		"warning":                 "audit:warn default:warn levels:warn kube:warn source:warn",
		"fatal":                   "audit:none default:none levels:none kube:none source:none",
		"DEBUG":                   "audit:debug default:debug levels:debug kube:debug source:debug",
		"all:error":               "audit:error default:error levels:error kube:error source:error",
		"kube:debug":              "audit:info default:info levels:info kube:debug source:info",
		"kube:debug,default:warn": "audit:warn default:warn levels:warn kube:debug source:warn",
		"pilot:debug":             "audit:info default:info levels:info kube:info source:info",
	} {
		if got := shown(levelsOf(t, text)); got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
	for _, bad := range []string{
		"loud", "", "default:", "info,", ":", "ads:loud", strings.Repeat("info,", 70) + "info", strings.Repeat("x", 5000),
	} {
		if _, err := New(bad, scopes); err == nil || !strings.Contains(err.Error(), "--log_output_level") {
			t.Errorf("%.40q: error %v, want one that names the flag", bad, err)
		}
	}
}

// TestChange: levels change by list, a wrong list changes nothing, audit is never quieter than at the start, and reset takes all back.
func TestChange(t *testing.T) {
	l := levelsOf(t, "info")
	for _, c := range []struct{ list, want, err string }{
		{"kube:debug,levels:none", "audit:info default:info levels:none kube:debug source:info", ""},
		{"default:error", "audit:info default:error levels:none kube:debug source:info", ""},
		{"kub:debug", "audit:info default:error levels:none kube:debug source:info", `there is no scope "kub"; did you mean kube?`},
		{"kube:warn,nosuch:debug", "audit:info default:error levels:none kube:debug source:info", "there are audit, default, levels"},
		{"kube:loud", "audit:info default:error levels:none kube:debug source:info", `"loud" is not one of debug, info, warn, error, none`},
		{"audit:none", "audit:info default:error levels:none kube:debug source:info", "never quieter than at the start: want info or more"},
		{"none", "audit:info default:none levels:none kube:none source:none", ""},
		{"audit:debug", "audit:debug default:none levels:none kube:none source:none", ""},
	} {
		err := l.Change(c.list)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q", c.list, err, c.err)
		}
		if got := shown(l); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.list, got, c.want)
		}
	}
	if got, want := l.String(), "audit:debug,default:none,levels:none,kube:none,source:none"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	l.Reset()
	if got := shown(l) + l.String(); got != "audit:info default:info levels:info kube:info source:info" {
		t.Error(got)
	}
}

// TestLines: a line's scope is its logger's, its own attribute's, or follows from the package that wrote it.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	l := levelsOf(t, "warn")
	log := l.Log(&out, false)
	for _, c := range []struct{ list, want string }{
		{"warn", ""},
		{"levels:info", "package"},
		{"audit:info,levels:warn", "logger attribute"},
		{"all:info", "package logger attribute grouped"},
		{"default:debug", ""}, // the lines are not the default scope's
	} {
		l.Reset()
		if err := l.Change(c.list); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		log.Info("package")
		log.With("scope", Audit).Info("logger")
		log.Info("attribute", "scope", Audit)
		log.WithGroup("group").With("scope", Audit).Info("grouped")
		var got []string
		for line := range strings.Lines(out.String()) {
			_, text, _ := strings.Cut(line, "msg=")
			got = append(got, strings.Fields(text)[0])
		}
		want := c.want
		if c.list == "levels:info" {
			want = "package grouped" // a group's attribute is no scope
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", c.list, got, want)
		}
	}
	if log := l.Log(&out, true); !strings.HasPrefix(line(&out, log), "{") {
		t.Errorf("no JSON: %s", &out)
	}
}

func line(out *bytes.Buffer, log *slog.Logger) string {
	out.Reset()
	log.Error("x")
	return out.String()
}

// TestScopesOfPackages: the longest folder counts, whatever the form of the function's name is.
func TestScopesOfPackages(t *testing.T) {
	for function, want := range map[string]string{
		"fairway/internal/source/kube.(*feed).run.func1": "kube",
		"fairway/internal/source/kube/rows.Read":         "kube",
		"fairway/internal/source/kubernetes.Read":        "source",
		"fairway/internal/mesh.Read":                     Default,
		"net/http.(*conn).serve":                         Default,
		"main.main":                                      Default,
		"":                                               Default,
	} {
		if got := scopeOf(scopes, function); got != want {
			t.Errorf("%s: %s, want %s", function, got, want)
		}
	}
}

// TestAnswer: GET shows, POST changes, a wrong list is refused.
func TestAnswer(t *testing.T) {
	l := levelsOf(t, "info")
	for _, c := range []struct {
		method, target string
		status         int
		want           string
	}{
		{"GET", "/?level=debug", 200, `"output_level": "info"`},
		{"POST", "/?level=kube:debug", 200, `"output_level": "debug"`},
		{"POST", "/?level=kube:loud", 400, "loud"},
		{"POST", "/?reset=true", 200, `"log_callers": false`},
	} {
		w := httptest.NewRecorder()
		l.Answer(w, httptest.NewRequest(c.method, c.target, nil))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.target, w.Code, w.Body)
		}
	}
	if l.String() != "" {
		t.Errorf("after reset %s differs", l)
	}
	var out bytes.Buffer
	page := l.Page(l.Log(&out, false), func(*http.Request) string { return "ops" })
	for _, kind := range []string{"text/plain", "application/json"} {
		r := httptest.NewRequest(http.MethodPost, "/?level=kube:debug", nil)
		r.Header.Set("Content-Type", kind)
		page(httptest.NewRecorder(), r)
		changed := kind == "application/json"
		if (l.String() != "") != changed || strings.Contains(out.String(), "namespace=ops") != changed {
			t.Errorf("%s: %s differs, log %s", kind, l, &out)
		}
	}
}

// TestConcurrent: lines are written while levels change.
func TestConcurrent(t *testing.T) {
	l := levelsOf(t, "info")
	log := l.Log(&safe{}, false)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				log.Debug("a", "scope", Audit)
				if err := l.Change("levels:debug,kube:none"); err != nil {
					t.Error(err)
				}
				l.Reset()
			}
		})
	}
	all.Wait()
	if l.String() != "" {
		t.Errorf("%s differs", l)
	}
}

type safe struct {
	mu sync.Mutex
	n  int
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n += len(p)
	return len(p), nil
}
