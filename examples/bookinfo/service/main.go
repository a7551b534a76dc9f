// Command service is one instance of a small bookshop: productpage, reviews or ratings, by its --role.
//
// productpage asks reviews, and reviews of version v2 and v3 ask ratings, each at the address given by flag. In a mesh this is the
// outbound address of the sidecar, and the Host header names the service. Every answer is JSON that names the version of the
// instance, so the client sees which way a request went. An instance can fail on purpose: --fail 2/3 answers the first two of every
// three requests with 503.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var s shop
	var fail string
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	flags.StringVar(&s.role, "role", "", "productpage, reviews or ratings")
	flags.StringVar(&s.version, "version", "v1", "what the answers name")
	flags.StringVar(&s.upstream.address, "upstream", "", "host:port to send requests for other services to; empty: send none")
	flags.StringVar(&fail, "fail", "0/1", "n/m: of every m requests the first n fail")
	listen := flags.String("listen", "127.0.0.1:0", "address to serve on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if s.failures, err = parseFailures(fail); err != nil {
		return err
	}
	handler, err := s.handler()
	if err != nil {
		return err
	}
	return serve(ctx, *listen, handler)
}

// serve answers until ctx ends, then lets requests under way finish for at most two seconds.
func serve(ctx context.Context, address string, handler http.Handler) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		stopped <- server.Shutdown(bounded)
	}()
	fmt.Println("serving on", l.Addr())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
