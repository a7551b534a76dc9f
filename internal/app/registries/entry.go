package registries

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"fairway/internal/app/machines"
	"fairway/internal/config"
	"fairway/internal/printable"
	"fairway/internal/source"
)

// Entry is one of the file's: a registry of one kind. Exactly one kind is given.
type Entry struct {
	// Name tells registries of one kind apart; empty: "default". With the kind it names the source: "Consul/default".
	Name string `json:"name,omitempty"`
	// Wait is how long the start waits for the registry, as "30s"; "0s": until it has been read.
	Wait string `json:"wait,omitempty"`
	// Expiry is how long the last rows count while the registry does not answer, as "24h"; "0s": for ever.
	Expiry string `json:"expiry,omitempty"`

	kinds
}

// options are a kind's.
type options interface {
	// Validate tells every mistake, each by its field.
	Validate() error
	// source makes the source. log is the registry's own.
	source(name string, env Env) (source.Source, error)
}

// Env is the environment of the registries' sources, besides their options.
type Env struct {
	Decoder *config.Decoder
	Domain  string // DNS suffix of the mesh's services
	Log     *slog.Logger
	// Machines shares registered machines; nil: a cluster has them.
	Machines *machines.Machines
}

// DefaultName is that of a registry which has none.
const DefaultName = "default"

const mostName = 63

// chosen is the one kind that the entry gives, and its name in the file.
func (e *Entry) chosen() (string, options, error) {
	var names, given []string
	var out options
	v := reflect.ValueOf(e.kinds)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		names = append(names, name)
		if o := v.Field(i); !o.IsNil() {
			given, out = append(given, name), o.Interface().(options)
		}
	}
	switch len(given) {
	case 0:
		return "", nil, fmt.Errorf("it is of no kind; want one of %s", strings.Join(names, ", "))
	case 1:
		return given[0], out, nil
	}
	return "", nil, fmt.Errorf("%s are given; want one of them, and an entry of its own for the other", strings.Join(given, " and "))
}

// checked is an entry that can be read.
type checked struct {
	source       string // its name
	wait, expiry time.Duration
	options      options
	sum          [32]byte
}

// check tells every mistake of an entry.
func (e *Entry) check(defaults Defaults) (checked, error) {
	out := checked{wait: defaults.Wait, expiry: defaults.Expiry}
	field, o, err := e.chosen()
	errs := []error{err}
	name := cmp.Or(e.Name, DefaultName)
	if len(name) > mostName || !printable.Is(name, mostName) || strings.ContainsAny(name, "/, =\"\\") {
		errs = append(errs, fmt.Errorf("name: %q; want at most %d letters, digits, '-', '_' and '.'",
			printable.Text(name, printable.Short), mostName))
	}
	for _, d := range []struct {
		field, text string
		to          *time.Duration
	}{{"wait", e.Wait, &out.wait}, {"expiry", e.Expiry, &out.expiry}} {
		if d.text == "" {
			continue
		}
		if *d.to, err = time.ParseDuration(d.text); err != nil || *d.to < 0 {
			shown := printable.Text(d.text, printable.Short)
			errs = append(errs, fmt.Errorf("%s: %q is not a duration; want one as 30s, or 0s", d.field, shown))
		}
	}
	if o != nil {
		if err := o.Validate(); err != nil {
			errs = append(errs, within(field, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return checked{}, err
	}
	out.source, out.options = sourceNames[field]+"/"+name, o
	text, err := json.Marshal(o)
	if err != nil {
		return checked{}, err
	}
	out.sum = sha256.Sum256(text)
	return out, nil
}

// within puts a field's name before each mistake of it.
func within(field string, err error) error {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return fmt.Errorf("%s.%w", field, err)
	}
	var out []error
	for _, one := range many.Unwrap() {
		out = append(out, within(field, one))
	}
	return errors.Join(out...)
}
