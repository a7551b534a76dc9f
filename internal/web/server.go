package web

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"
)

// Limits of every server.
const (
	headerTime  = 10 * time.Second // for a request's header
	readTime    = time.Minute      // for a whole request
	idleTime    = 2 * time.Minute  // between two requests of one connection
	headerBytes = 64 << 10         // tokens and cookies included
	answerTime  = time.Minute      // Options.Answer's default
	mostTime    = 10 * time.Minute // that Extend gives an answer
)

// Options are the differences between servers.
type Options struct {
	Log      *slog.Logger  // gets panics as errors, and mistakes of clients at the level debug
	Panicked func()        // is called after each panic of a page; nil: panics are not counted
	Answer   time.Duration // bounds the time until an answer is made and taken; 0: a minute
	// Open are paths that take no seat, so that no client can keep them from being answered. Their answers must be short and cost nothing.
	Open []string
	// Apart are paths that each have seats of their own, shared with all paths below: requests for other pages take none of these.
	Apart []string
}

// New returns a server of h. It ends requests that exceed its time limits, and answers 503 when too many requests run at once.
func New(h http.Handler, o Options) *http.Server {
	if o.Answer <= 0 {
		o.Answer = answerTime
	}
	return &http.Server{
		Handler:           seats(recovering(h, o), o),
		ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: o.Answer, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
}

// Extend gives one answer d, at most ten minutes, beyond the server's usual time. A page that takes longer calls it first.
func Extend(w http.ResponseWriter, d time.Duration) {
	until := time.Now().Add(min(max(d, 0), mostTime) + answerTime)
	c := http.NewResponseController(w)
	// a writer without deadlines, as in tests, has no limit; past the read deadline the page's context would end
	_ = errors.Join(c.SetWriteDeadline(until), c.SetReadDeadline(until))
}

// Loopback reports whether a request came over this machine's loopback interface. It ignores the request's own headers (X-Forwarded-For):
// so a request that a proxy on this machine passes on is local.
func Loopback(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

// recovering ends only the page that panics: an answer that had begun is cut, so that the client sees that it is incomplete.
func recovering(h http.Handler, o Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &begun{ResponseWriter: w}
		defer func() {
			why := recover()
			if why == nil {
				return
			}
			if why == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(why)
			}
			o.Log.Error("a page failed", "page", shown(r), "panic", why, "stack", string(debug.Stack()))
			if o.Panicked != nil {
				o.Panicked()
			}
			if answer.yes {
				panic(http.ErrAbortHandler)
			}
			http.Error(w, "this page failed; the log says how", http.StatusInternalServerError)
		}()
		h.ServeHTTP(answer, r)
	})
}

// shown returns a page's name for the log: the pattern of its handler. Paths may hold secrets, like the key of the injection webhook.
func shown(r *http.Request) string {
	if r.Pattern == "" {
		return "without a pattern"
	}
	return r.Pattern
}

// begun knows whether an answer has begun.
type begun struct {
	http.ResponseWriter
	yes bool
}

func (b *begun) WriteHeader(code int) {
	b.yes = true
	b.ResponseWriter.WriteHeader(code)
}

func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (b *begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }
