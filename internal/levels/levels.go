package levels

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"fairway/internal/printable"
	"fairway/internal/spelling"
)

// silent is the level none: no line has it.
const silent = slog.LevelError + 4

// names are the levels as users write them, the first one of a level as it is shown.
var names = []named{
	{"debug", slog.LevelDebug}, {"info", slog.LevelInfo}, {"warn", slog.LevelWarn}, {"error", slog.LevelError}, {"none", silent},
	{"warning", slog.LevelWarn}, {"fatal", silent},
}

// named is a level with a name.
type named struct {
	name  string
	level slog.Level
}

// Bounds of a change.
const (
	mostText  = 4 << 10
	mostParts = 64
)

// Levels are the levels of a program's scopes. Any goroutine may use them.
type Levels struct {
	scopes []Scope
	start  setting

	mu  sync.Mutex // changes, one at a time
	now atomic.Pointer[setting]
	of  sync.Map // program counter → name of the scope
}

// setting has a level for each scope.
type setting struct {
	of    map[string]slog.Level
	least slog.Level // the lowest of them
	same  bool       // all are least
}

func settingOf(of map[string]slog.Level) setting {
	all := slices.Collect(maps.Values(of))
	least := slices.Min(all)
	return setting{of, least, least == slices.Max(all)}
}

// New returns levels by the value of --log_output_level: a level for all scopes, or a list as "default:warn,ads:debug". Unlisted scopes
// have the level of default, or of all; else info. A list may name scopes of Istio's that do not exist here.
func New(text string, scopes []Scope) (*Levels, error) {
	l := &Levels{scopes: scopes}
	parts, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("--log_output_level: %w", err)
	}
	of := map[string]slog.Level{}
	for _, s := range scopes {
		of[s.Name] = slog.LevelInfo
		for _, p := range parts {
			if p.scope == "" || p.scope == Default {
				of[s.Name] = p.level
			}
		}
	}
	for _, p := range parts {
		if l.knows(p.scope) {
			of[p.scope] = p.level
		}
	}
	l.start = settingOf(of)
	l.now.Store(&l.start)
	return l, nil
}

// part is one element of a list.
type part struct {
	scope string // empty: all
	level slog.Level
}

func parse(text string) (out []part, err error) {
	if len(text) > mostText {
		return nil, fmt.Errorf("a list of levels has at most %d bytes", mostText)
	}
	list := strings.Split(text, ",")
	if len(list) > mostParts {
		return nil, fmt.Errorf("a list of levels has at most %d parts", mostParts)
	}
	for _, word := range list {
		scope, name, scoped := strings.Cut(strings.TrimSpace(word), ":")
		if !scoped {
			scope, name = "", scope
		}
		if scope == "all" {
			scope = ""
		}
		i := slices.IndexFunc(names, func(n named) bool { return strings.EqualFold(n.name, name) })
		if i < 0 {
			return nil, fmt.Errorf("%q is not one of debug, info, warn, error, none", printable.Text(name, printable.Short))
		}
		out = append(out, part{scope, names[i].level})
	}
	return out, nil
}

func (l *Levels) knows(scope string) bool {
	return slices.ContainsFunc(l.scopes, func(s Scope) bool { return s.Name == scope })
}

// Change sets levels by a list: "debug" and "all:debug" set all scopes, "kube:debug" one. The scope audit is never quieter than at the
// start: the record of decisions cannot be switched off.
func (l *Levels) Change(text string) error {
	parts, err := parse(text)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := maps.Clone(l.now.Load().of)
	for _, p := range parts {
		switch {
		case p.scope == "":
			for scope := range of {
				of[scope] = p.level
			}
			l.keepAudit(of)
		case !l.knows(p.scope):
			return l.unknown(p.scope)
		default:
			if of[p.scope] = p.level; l.keepAudit(of) {
				return fmt.Errorf("scope %s is never quieter than at the start: want %s or more", Audit, nameOf(l.start.of[Audit]))
			}
		}
	}
	next := settingOf(of)
	l.now.Store(&next)
	return nil
}

// keepAudit makes the scope audit as verbose as it was at the start, and reports whether it was not.
func (l *Levels) keepAudit(of map[string]slog.Level) bool {
	least, has := l.start.of[Audit]
	quieter := has && of[Audit] > least
	if quieter {
		of[Audit] = least
	}
	return quieter
}

func (l *Levels) unknown(scope string) error {
	var known []string
	for _, s := range l.scopes {
		known = append(known, s.Name)
	}
	near := spelling.DidYouMean(scope, slices.Values(known), 2)
	if near == "" {
		near = "there are " + strings.Join(known, ", ")
	}
	return fmt.Errorf("there is no scope %q; %s", printable.Text(scope, printable.Short), near)
}

// Reset sets the levels of the start.
func (l *Levels) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.Store(&l.start)
}

// String returns the levels that differ from those of the start, as a list.
func (l *Levels) String() string {
	now := l.now.Load()
	var out []string
	for _, s := range l.scopes {
		if level := now.of[s.Name]; level != l.start.of[s.Name] {
			out = append(out, s.Name+":"+nameOf(level))
		}
	}
	return strings.Join(out, ",")
}

func nameOf(level slog.Level) string {
	for _, n := range names {
		if n.level == level {
			return n.name
		}
	}
	return level.String()
}

// Log returns a logger of lines of these levels.
func (l *Levels) Log(w io.Writer, asJSON bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelDebug}
	if asJSON {
		return slog.New(handler{next: slog.NewJSONHandler(w, options), levels: l})
	}
	return slog.New(handler{next: slog.NewTextHandler(w, options), levels: l})
}

// handler hands the lines of these levels to next.
type handler struct {
	next    slog.Handler
	levels  *Levels
	scope   string // the logger's own; empty: none
	grouped bool   // attributes are a group's
}

// Enabled implements slog.Handler. It knows no scope yet.
func (h handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.levels.now.Load().least
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if now := h.levels.now.Load(); r.Level < now.least || !now.same && r.Level < now.of[h.scopeOf(r)] {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if a.Key == "scope" && !h.grouped {
			h.scope = a.Value.String()
		}
	}
	h.next = h.next.WithAttrs(attrs)
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	h.next, h.grouped = h.next.WithGroup(name), true
	return h
}

// scopeOf returns the scope of a line.
func (h handler) scopeOf(r slog.Record) string {
	scope := h.scope
	if !h.grouped {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "scope" {
				scope = a.Value.String()
			}
			return scope == ""
		})
	}
	if h.levels.knows(scope) {
		return scope
	}
	if known, ok := h.levels.of.Load(r.PC); ok {
		return known.(string)
	}
	frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
	scope = scopeOf(h.levels.scopes, frame.Function)
	h.levels.of.Store(r.PC, scope)
	return scope
}
