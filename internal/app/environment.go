package app

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// environment reads variables and gathers what is wrong with them.
type environment struct {
	look func(string) (string, bool)
	errs []error
}

func (e *environment) get(name string) string {
	v, _ := e.look(name)
	return v
}

func (e *environment) wrong(name string, err error) {
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("%s: %w", name, err))
	}
}

func (e *environment) text(name string, to *string) {
	if v := e.get(name); v != "" {
		*to = v
	}
}

func (e *environment) duration(name string, to *time.Duration) {
	if v := e.get(name); v != "" {
		d, err := time.ParseDuration(v)
		e.wrong(name, err)
		*to = d
	}
}

func (e *environment) percent(name string, to *float64) {
	if v := e.get(name); v != "" {
		n, err := strconv.ParseFloat(v, 64)
		e.wrong(name, err)
		*to = n / 100
	}
}

// err is all that was wrong.
func (e *environment) err() error { return errors.Join(e.errs...) }
