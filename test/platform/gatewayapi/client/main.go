// Command client stands for the client of the suite's image echo-advanced. `client URL [--method=M] [-H NAME:VALUE …] [--count=N]` sends
// requests from a pod, or gRPC calls if the scheme is grpc, and prints each response: its status, its headers and what the server (the
// command echo) says it received. A blank line follows each response. Redirects are not followed.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// patience is how long a response may take.
const patience = 5 * time.Second

// request is what the command line asks for.
type request struct {
	to     *url.URL
	method string
	header http.Header
	count  int
}

func main() {
	r, err := parse(os.Args[1:])
	if err == nil {
		err = r.run(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func parse(args []string) (r request, err error) {
	if len(args) == 0 {
		return r, errors.New("the first argument must be a URL")
	}
	if r.to, err = url.Parse(args[0]); err != nil {
		return r, err
	}
	r.header = http.Header{}
	flags := flag.NewFlagSet("client URL", flag.ContinueOnError)
	flags.StringVar(&r.method, "method", http.MethodGet, "method of HTTP requests")
	flags.IntVar(&r.count, "count", 1, "number of requests, one after another")
	flags.Func("H", "header of the requests, NAME:VALUE; may be repeated", func(text string) error {
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return fmt.Errorf("%q is not NAME:VALUE", text)
		}
		r.header.Add(name, strings.TrimSpace(value))
		return nil
	})
	return r, flags.Parse(args[1:])
}

// run sends the requests. The first one without a response ends it.
func (r request) run(out io.Writer) error {
	send := r.http()
	if r.to.Scheme == "grpc" {
		conn, err := grpc.NewClient("passthrough:///"+r.to.Host, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		send = r.grpc(conn)
	}
	for range r.count {
		ctx, stop := context.WithTimeout(context.Background(), patience)
		status, header, body, err := send(ctx)
		stop()
		if err != nil {
			return err
		}
		show(out, status, header, body)
	}
	return nil
}

// sender sends one request and returns its response.
type sender func(context.Context) (status int, header map[string][]string, body string, err error)

// http returns a sender of HTTP requests. The header Host is the authority of the requests, in place of the URL's.
func (r request) http() sender {
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context) (int, map[string][]string, string, error) {
		q, err := http.NewRequestWithContext(ctx, r.method, r.to.String(), nil)
		if err != nil {
			return 0, nil, "", err
		}
		q.Header = r.header.Clone()
		if host := q.Header.Get("Host"); host != "" {
			q.Host = host
		}
		response, err := client.Do(q)
		if err != nil {
			return 0, nil, "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, response.Header, string(body), err
	}
}

// grpc returns a sender of gRPC calls. The status is HTTP's: the suite wants 200 for a call that succeeds.
func (r request) grpc(conn *grpc.ClientConn) sender {
	sent := metadata.MD{}
	for name, values := range r.header {
		sent.Append(name, values...)
	}
	return func(ctx context.Context) (int, map[string][]string, string, error) {
		var header metadata.MD
		var body wrapperspb.StringValue
		ctx = metadata.NewOutgoingContext(ctx, sent)
		err := conn.Invoke(ctx, "/echo.Echo/Call", new(emptypb.Empty), &body, grpc.Header(&header), grpc.WaitForReady(true))
		return http.StatusOK, header, body.GetValue(), err
	}
}

// show prints a response without the blank lines of its body.
func show(out io.Writer, status int, header map[string][]string, body string) {
	fmt.Fprintf(out, "StatusCode=%d\n", status)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			fmt.Fprintf(out, "ResponseHeader=%s:%s\n", name, value)
		}
	}
	for line := range strings.Lines(body) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintln(out, line)
		}
	}
	fmt.Fprintln(out)
}
