package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// profile takes a CPU profile of the server over the next seconds, if profiles are asked for. The channel yields once it is written.
func (b *bench) profile(_ context.Context, name string) <-chan error {
	done := make(chan error, 1)
	if b.profiles == "" {
		done <- nil
		return done
	}
	go func() { done <- b.save(name, "/debug/pprof/profile?seconds=3") }()
	return done
}

// save writes what a page of the server says to a file named after the shape.
func (b *bench) save(name, page string) error {
	if b.profiles == "" {
		return nil
	}
	resp, err := http.Get("http://" + b.server.http + page)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	s := b.rules.shape
	f, err := os.Create(
		filepath.Join(b.profiles, fmt.Sprintf("%s-%dx%dx%dx%d.pprof", name, s.Services, s.Endpoints, s.Clients, s.Namespaces)))
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, resp.Body); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
