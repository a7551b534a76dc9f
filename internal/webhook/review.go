package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"time"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/limit"
	"fairway/internal/printable"
)

// Bounds on one review.
const (
	// mostObject is what an API server takes for one object, in bytes.
	mostObject = 3 << 20
	// mostReview holds an object and the one that it replaces.
	mostReview = 2*mostObject + 64<<10
	// readWithin is how long a review may take to arrive: API servers wait ten seconds for the answer by default.
	readWithin  = 10 * time.Second
	small       = 256 << 10 // a review that needs no place among the large ones
	mostLarge   = 16        // large ones at once, half of them of one address
	mostAtWork  = 4         // answers that are computed at once, three of them of one address: each takes processor and memory
	waitWithin  = 5 * time.Second
	workWithin  = 4 * time.Second // computing one answer: with the wait, it ends before an API server gives up after ten seconds
	mostWaiting = 64              // reviews of one address that wait for one of these places
	longestUID  = 256
	mostWarned  = 16 // warnings of an answer
	longest     = 4 << 10
)

// refusal is an HTTP answer to a request that is not a review.
type refusal struct {
	status int
	why    string
}

func (r *refusal) Error() string { return r.why }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// read reads the request of a review, which may have most bytes.
func (h *Handlers) read(w http.ResponseWriter, r *http.Request, most int64) (*admissionv1.AdmissionRequest, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, refuse(http.StatusMethodNotAllowed, "an admission review is posted")
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "Content-Type: want application/json")
	}
	// A writer without deadlines, as a test's, has none.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readWithin))
	body, err := h.body(r, http.MaxBytesReader(w, r.Body, most), http.NewResponseController(w))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, refuse(http.StatusRequestEntityTooLarge, "the review has more than %d bytes", most)
	case errors.Is(err, errBusy):
		return nil, refuse(http.StatusServiceUnavailable, "too many large reviews at once; try again")
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "the review did not come whole")
	case !utf8.Valid(body):
		return nil, refuse(http.StatusBadRequest, "the review is not UTF-8")
	}
	return parse(body)
}

var errBusy = errors.New("all places are taken")

// body reads a body. A large one, which no pod that people write has, needs a place: so strangers who send many of these at once neither
// fill the memory nor delay small reviews. A large one that arrives slowly loses its place to others.
func (h *Handlers) body(r *http.Request, from io.Reader, control *http.ResponseController) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(from, small+1))
	if err != nil || len(body) <= small {
		return body, err
	}
	place, err := h.take(r, h.large)
	if err != nil {
		return nil, errBusy
	}
	defer place.Free()
	place.Idle(func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	rest, err := io.ReadAll(from)
	if !place.Busy() {
		return nil, errBusy
	}
	return append(body, rest...), err
}

// take waits a little for a place. Addresses with fewer places get the next free one first, so the API server gets it.
func (h *Handlers) take(r *http.Request, of *limit.Seats[netip.Prefix]) (*limit.Seat[netip.Prefix], error) {
	var from netip.Prefix
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		from = limit.Network(at.Addr())
	}
	ctx, cancel := context.WithTimeout(r.Context(), waitWithin)
	defer cancel()
	return of.Take(ctx, from)
}

// do computes an answer in a place, but not for a caller that has left. If the caller leaves meanwhile, or the work takes too long, do
// returns that as an error; work then ends at its next step, when it checks ctx, and only then its place is free. How long work takes never
// decides a verdict, so all replicas decide alike.
func (h *Handlers) do(r *http.Request, work func(ctx context.Context)) error {
	place, err := h.take(r, h.work)
	if err != nil || r.Context().Err() != nil {
		place.Free()
		return refuse(http.StatusServiceUnavailable, "too many reviews at once; try again")
	}
	ctx, cancel := context.WithTimeout(r.Context(), workWithin)
	defer cancel()
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		defer place.Free() // before the caller goes on
		work(ctx)
	}()
	select {
	case failed := <-done:
		if failed != nil {
			panic(failed) // where the server reports it
		}
	case <-ctx.Done():
		go func() {
			if failed := <-done; failed != nil {
				h.options.Log.Error("a review failed after its caller had left", "panic", failed)
			}
		}()
	}
	if ctx.Err() != nil {
		return refuse(http.StatusServiceUnavailable, "the review was not done within %v; make the object smaller, or try again", workWithin)
	}
	return nil
}

// parse reads a review's request.
func parse(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, refuse(http.StatusBadRequest, "the body is not an AdmissionReview: %s", printable.Text(err.Error(), printable.Long))
	}
	want := admissionv1.SchemeGroupVersion.String()
	switch q := review.Request; {
	case review.APIVersion != want || review.Kind != "AdmissionReview":
		return nil, refuse(http.StatusBadRequest, "want kind AdmissionReview of %s, not %q of %q",
			want, printable.Text(review.Kind, printable.Short), printable.Text(review.APIVersion, printable.Short))
	case q == nil || q.UID == "" || len(q.UID) > longestUID:
		return nil, refuse(http.StatusBadRequest, "the review has no request with a uid of at most %d bytes", longestUID)
	}
	return review.Request, nil
}

// allowed returns an answer that allows the object.
func allowed(warnings ...string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true, Warnings: shown(warnings)}
}

// forbidden refuses an object; why is for its author.
func forbidden(why string, warnings ...string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{
		Warnings: shown(warnings),
		Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonInvalid,
			Message: printable.Lines(why, longest),
		},
	}
}

// shown returns warnings as kubectl prints them: a few, each on one line.
func shown(warnings []string) []string {
	if len(warnings) > mostWarned {
		warnings = append(warnings[:mostWarned-1:mostWarned-1], fmt.Sprintf("and %d more warnings", len(warnings)-mostWarned+1))
	}
	var out []string
	for _, w := range warnings {
		out = append(out, printable.Text(w, printable.Short))
	}
	return out
}

// answer writes the answer to a request.
func answer(w http.ResponseWriter, q *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) {
	a.UID = q.UID
	out := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: a,
	}
	raw, err := json.Marshal(out)
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(raw) // an error means that the caller has left
}
