package levels

import (
	"encoding/json"
	"log/slog"
	"mime"
	"net/http"

	"fairway/internal/printable"
)

// Shown is a scope as pages and istioctl show it.
type Shown struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	OutputLevel string `json:"output_level"`
	// The last two are always the same: lines have no stacks and no callers.
	StackTraceLevel string `json:"stack_trace_level"`
	LogCallers      bool   `json:"log_callers"`
}

// List returns the scopes with their levels, in order.
func (l *Levels) List() []Shown {
	now := l.now.Load()
	out := []Shown{}
	for _, s := range l.scopes {
		out = append(out, Shown{s.Name, s.About, nameOf(now.of[s.Name]), "none", false})
	}
	return out
}

// Answer makes the change of a POST, and answers with the scopes: ?level=LIST sets levels, ?reset=true those of the start. It reports
// whether it changed something. The caller has checked who asks.
func (l *Levels) Answer(w http.ResponseWriter, r *http.Request) (changed bool) {
	if r.Method == http.MethodPost {
		query := r.URL.Query()
		if query.Get("reset") == "true" {
			l.Reset()
		}
		if list := query.Get("level"); list != "" {
			if err := l.Change(list); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return false
			}
		}
		changed = true
	}
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(l.List()) // a caller that left is not a loss
	return changed
}

// Page returns the page of a control plane. A POST has to be JSON, though nothing is read of it: browsers send no such body for a page of
// another site. A change is logged with its caller's address and namespace.
func (l *Levels) Page(log *slog.Logger, namespace func(*http.Request) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // a wrong one is not JSON
		if r.Method == http.MethodPost && kind != "application/json" {
			http.Error(w, "this page takes Content-Type: application/json, as pilotctl admin log sends it", http.StatusUnsupportedMediaType)
			return
		}
		if l.Answer(w, r) && log != nil {
			log.Warn("the levels of this log were changed", "scope", Audit,
				"differ", l.String(), "address", printable.Text(r.RemoteAddr, printable.Short), "namespace", namespace(r))
		}
	}
}
