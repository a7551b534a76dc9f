// Release makes images, packages and archives out of programs that were built before.
//
//	release images -programs DIR -envoy amd64=FILE -to DIR    # images of the three programs
//	release push -images DIR -hub HUB                         # copies them to a registry
//	release packages -programs DIR -chart DIR -to DIR         # packages, archives, the chart, checksums, the bill of materials
//
// `make images` and `make release` call it. It is a module of its own, so that the programs do not depend on its libraries.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"fairway/tools/release/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verbs := map[string]func(context.Context, []string) error{"images": images, "push": push, "packages": packages}
	if len(args) == 0 || verbs[args[0]] == nil {
		return errors.New("want images, push or packages")
	}
	return verbs[args[0]](ctx, args[1:])
}

// options are the flags that verbs share.
type options struct {
	*flag.FlagSet
	version, commit, date *string
	programs, to          *string
}

func flags(verb string) options {
	f := flag.NewFlagSet(verb, flag.ExitOnError)
	return options{
		f, f.String("version", "0.0.0", "version of the programs"), f.String("commit", "", "commit that they were built from"),
		f.String("date", "1970-01-01T00:00:00Z", "when that commit was made"),
		f.String("programs", "", "folder with <os>-<architecture>/<program>"), f.String("to", "", "folder to write"),
	}
}

// moment returns the date of the commit.
func (o options) moment() (time.Time, error) {
	t, err := time.Parse(time.RFC3339, *o.date)
	if err != nil {
		return t, fmt.Errorf("-date %q; want it as 2026-11-28T10:02:03Z", *o.date)
	}
	return t.UTC(), nil
}

// named collects NAME=PATH flags.
type named map[string]string

func (n named) String() string { return "" }

func (n named) Set(text string) error {
	name, path, ok := strings.Cut(text, "=")
	if !ok || name == "" || path == "" {
		return errors.New("want ARCHITECTURE=FILE")
	}
	n[name] = path
	return nil
}

func images(ctx context.Context, args []string) error {
	o, envoys := flags("images"), named{}
	o.Var(envoys, "envoy", "Envoy for an architecture, as amd64=FILE; an architecture without one gets no proxyv2")
	debian := o.String("debian", "", "folder that keeps packages of Debian")
	archs := o.String("arch", runtime.GOARCH, "architectures, with commas between them")
	hub := o.String("hub", "fairway.internal", "what references begin with")
	if err := o.Parse(args); err != nil {
		return err
	}
	date, err := o.moment()
	if err != nil {
		return err
	}
	scratch, remove, err := image.Scratch()
	if err != nil {
		return err
	}
	defer remove()
	s := image.Source{
		Programs: *o.programs, Envoys: envoys, Debian: *debian, Scratch: scratch, Version: *o.version, Commit: *o.commit, Date: date,
	}
	if err := os.MkdirAll(*o.to, 0o755); err != nil {
		return err
	}
	for _, k := range image.Kinds {
		built, has := image.Images{}, []string{}
		for arch := range strings.SplitSeq(*archs, ",") {
			if k.Envoy && envoys[arch] == "" {
				fmt.Printf("%s: not for %s, which no Envoy was named for\n", k.Name, arch)
				continue
			}
			if built[arch], err = s.Build(ctx, k, arch); err != nil {
				return err
			}
			has = append(has, arch)
		}
		if len(has) == 0 {
			continue
		}
		slices.Sort(has)
		if err := s.Write(k, built, has, *hub, *o.to); err != nil {
			return err
		}
		fmt.Printf("%s/%s:%s for %s: %s\n", *hub, k.Name, *o.version, strings.Join(has, ", "), filepath.Join(*o.to, k.Name))
	}
	return nil
}

func push(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("push", flag.ExitOnError)
	from := f.String("images", "", "folder that images were written to")
	hub := f.String("hub", "", "registry and path, as registry.example/mesh")
	version := f.String("version", "", "tag of the images")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *hub == "" {
		return errors.New("push: no registry; say HUB=registry.example/mesh")
	}
	for _, k := range image.Kinds {
		reference := *hub + "/" + k.Name + ":" + *version
		if err := image.Push(ctx, filepath.Join(*from, k.Name), reference); err != nil {
			return fmt.Errorf("push %s: %w", reference, err)
		}
		fmt.Println(reference)
	}
	return nil
}
