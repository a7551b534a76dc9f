package environment

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Reader reads environment variables and collects the errors in them. A variable that is unset or empty changes nothing.
type Reader struct {
	Lookup func(string) (string, bool) // as os.LookupEnv
	errs   []error
}

// Get returns a variable; empty: it is not set.
func (e *Reader) Get(name string) string {
	v, _ := e.Lookup(name)
	return v
}

// AddError notes an error in the value of a variable, or of another named option; a nil error notes nothing.
func (e *Reader) AddError(name string, err error) {
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("%s: %w", name, err))
	}
}

// Text reads a variable as it is.
func (e *Reader) Text(name string, to *string) {
	if v := e.Get(name); v != "" {
		*to = v
	}
}

// Duration reads a duration as 1h30m.
func (e *Reader) Duration(name string, to *time.Duration) {
	if v := e.Get(name); v != "" {
		d, err := time.ParseDuration(v)
		e.AddError(name, err)
		*to = d
	}
}

// Bool reads true or false, and their other spellings.
func (e *Reader) Bool(name string, to *bool) {
	if v := e.Get(name); v != "" {
		on, err := strconv.ParseBool(v)
		e.AddError(name, err)
		*to = on
	}
}

// Percent reads a percentage as a share of 1.
func (e *Reader) Percent(name string, to *float64) {
	if v := e.Get(name); v != "" {
		n, err := strconv.ParseFloat(v, 64)
		e.AddError(name, err)
		*to = n / 100
	}
}

// Err is all that was wrong; nil: nothing.
func (e *Reader) Err() error { return errors.Join(e.errs...) }
