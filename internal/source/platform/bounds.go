package platform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/source/budget"
)

// Limits say how much is kept of a registry. They are a part of each registry's options; 0 is the default.
type Limits struct {
	// MaxServices and MaxInstances are how many are kept: 100,000 and 1,000,000.
	MaxServices  int `json:"maxServices,omitempty"`
	MaxInstances int `json:"maxInstances,omitempty"`
	// MaxBytes is what they may take, as it is estimated here: 256 bytes and its words for an instance, 1 KiB for a service; 96 MiB.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// MaxPorts is how many ports services may have in all, beside one of each service: 20,000.
	MaxPorts int `json:"maxPorts,omitempty"`
}

// MostListed is how many instances of one answer are looked at, however many are kept. An answer of more is refused.
const MostListed = 2_000_000

// Defaults of Limits.
const (
	DefaultServices  = 100_000
	DefaultInstances = 1_000_000
	DefaultBytes     = 96 << 20
	DefaultPorts     = 20_000
)

// Validate returns every mistake, each by its field.
func (l Limits) Validate() error {
	var errs []error
	for _, f := range []struct {
		field string
		n     int64
	}{
		{"maxServices", int64(l.MaxServices)}, {"maxInstances", int64(l.MaxInstances)},
		{"maxBytes", l.MaxBytes}, {"maxPorts", int64(l.MaxPorts)},
	} {
		if f.n < 0 {
			errs = append(errs, fmt.Errorf("%s: %d; want a number above 0", f.field, f.n))
		}
	}
	return errors.Join(errs...)
}

// Bounds returns the limits, or their defaults, as a budget has them. Ports are those beside the first of each service.
func (l Limits) Bounds() budget.Bounds {
	return budget.Bounds{
		Bytes: or(l.MaxBytes, DefaultBytes), Things: or(l.MaxServices, DefaultServices),
		Endpoints: or(l.MaxInstances, DefaultInstances), Ports: or(l.MaxPorts, DefaultPorts),
	}
}

func or[N int | int64](n, otherwise N) N {
	if n == 0 {
		return otherwise
	}
	return n
}

// Account returns an empty account with these bounds of a registry's source.
func (l Limits) Account(registry string) *budget.Account {
	b := l.Bounds()
	return budget.NewAccount(registry, b, fmt.Sprintf("have the registry offer less, give services that listen on many ports a %s, "+
		"or raise maxServices (%d), maxInstances (%d), maxBytes (%d) or maxPorts (%d) of the registry",
		MetaPort, b.Things, b.Endpoints, b.Bytes, b.Ports))
}

// Estimates of what rows take, without their words.
const (
	serviceBytes  = 1 << 10
	instanceBytes = 256
	wordBytes     = 32 // of a label, beside its text
	portBytes     = 128
)

// WordsCost estimates the bytes of an instance with these words, by their number and length.
func WordsCost(words int, length int) int64 {
	return instanceBytes + int64(words)*wordBytes + int64(length)
}

// Bytes estimates what an instance takes.
func (in *Instance) Bytes() int64 {
	length := len(in.ID) + len(in.Network) + len(in.Identity)
	for _, a := range in.Addresses {
		length += len(a)
	}
	for k, v := range in.Labels {
		length += len(k) + len(v)
	}
	return WordsCost(len(in.Labels), length) + int64(len(in.Ports))*portBytes
}

// Cost returns what a service costs that has so many ports, and instances of so many bytes.
func Cost(instances int, bytes int64, ports int) budget.Cost {
	return budget.Cost{
		Bytes: serviceBytes + bytes + int64(ports)*portBytes, Things: 1, Endpoints: instances, Ports: max(ports-1, 0),
	}
}

// maxMeta is how many bytes metadata may have that says how a service is served.
const maxMeta = 4 << 10

// Readable reports whether a label of an instance, or metadata of its service, can be of use. Others need not be kept. reserved are the
// keys that the registry reads itself.
func Readable(key, value string, reserved ...string) bool {
	switch {
	case key == MetaProtocol || key == MetaPort || key == MetaExportTo || slices.Contains(reserved, key):
		return len(value) <= maxMeta
	case key == "":
		return false
	}
	return printable.IsName(key, maxWord) && printable.Is(value, maxWord) && !strings.Contains(value, ",")
}

// MaxLabels is how many labels an instance may have. One with more has none.
const MaxLabels = maxLabels

// Slow calls tell if end is not called within d. end waits for a call that is on its way, so a report after it is the last word.
func Slow(d time.Duration, tell func()) (end func()) {
	done := make(chan struct{})
	t := time.AfterFunc(d, func() {
		defer close(done)
		tell()
	})
	ended := false
	return func() {
		if !ended && !t.Stop() {
			<-done
		}
		ended = true
	}
}

// Patience is how long sources try to be up to date again before they say that they are not.
const Patience = 12 * time.Second

// placeBudget and placeRefusals are the places of problems about things that sources leave out. No place of a service is
// called so.
const (
	placeBudget   = "budget"
	placeRefusals = "refusals"
)

// withhold leaves out problems of places beyond the bound of refusals, and problems that were reported before.
func (b *Outbox) withhold(problems map[string][]mesh.Problem) map[string][]mesh.Problem {
	if b.refusals == nil {
		b.refusals, b.reported = budget.NewRefusals(b.Name, 0), map[string][]mesh.Problem{}
		b.withheld = map[uint64]struct{}{}
	}
	out := make(map[string][]mesh.Problem, len(problems))
	for place, list := range problems {
		if slices.Equal(b.reported[place], list) && !b.isWithheld(place) {
			continue
		}
		if len(list) == 0 {
			b.forget(place)
			if b.refusals.Remove(place) {
				delete(b.reported, place)
				out[place] = nil
			}
			continue
		}
		if !b.note(place) {
			continue
		}
		b.reported[place], out[place] = list, list
	}
	if list, changed := b.refusals.Problem(); changed {
		out[placeRefusals] = list
	}
	if b.Account != nil {
		if list, changed := b.Account.Problem(); changed {
			out[placeBudget] = list
		}
	}
	return out
}
