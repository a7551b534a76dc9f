// Command echo stands for the server of the suite's image echo-advanced: it answers HTTP requests and gRPC calls with lines NAME=VALUE
// about the request and the pod. The names are those that the suite's package echo reads.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/test/rig"
)

// ports is a flag that may be repeated.
type ports []string

func (p *ports) String() string { return strings.Join(*p, ",") }

func (p *ports) Set(port string) error {
	*p = append(*p, port)
	return nil
}

func main() {
	var web, secure, calls, raw ports
	flag.Var(&web, "port", "port of HTTP/1.1 and HTTP/2, in the clear unless -tls names it (8080)")
	flag.Var(&secure, "tls", "one of these ports that takes TLS")
	flag.Var(&calls, "grpc", "port of gRPC; any method is answered")
	flag.Var(&raw, "tcp", "port that sends back what it receives")
	crt := flag.String("crt", "", "file of the certificate; if it is missing, one is made")
	key := flag.String("key", "", "file of the certificate's key")
	flag.Parse()
	if len(web) == 0 {
		web = ports{"8080"}
	}
	failed := make(chan error)
	for _, port := range web {
		go func() { failed <- serveHTTP(port, slices.Contains(secure, port), *crt, *key) }()
	}
	for _, port := range calls {
		go func() { failed <- serveGRPC(port) }()
	}
	for _, port := range raw {
		go func() { failed <- serveTCP(port) }()
	}
	fmt.Fprintln(os.Stderr, <-failed)
	os.Exit(1)
}

// serveHTTP serves HTTP/1.1 and HTTP/2 at a port.
func serveHTTP(port string, secure bool, crt, key string) error {
	server := http.Server{
		Addr: ":" + port, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, answer([]string{
				"ServicePort=" + port, "IP=" + host(r.RemoteAddr),
				"Host=" + r.Host, "Method=" + r.Method, "Proto=" + r.Proto, "URL=" + r.RequestURI,
			}, r.Header))
		}),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	if !secure {
		return server.ListenAndServe()
	}
	own, err := certificate(crt, key)
	if err != nil {
		return err
	}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{own}}
	return server.ListenAndServeTLS("", "")
}

// certificate reads a certificate, or makes one if there is none.
func certificate(crt, key string) (tls.Certificate, error) {
	own, err := tls.LoadX509KeyPair(crt, key)
	if !errors.Is(err, fs.ErrNotExist) {
		return own, err
	}
	made, private, err := rig.Pair()
	if err != nil {
		return own, err
	}
	return tls.X509KeyPair(made, private)
}

// serveGRPC answers every call at a port with a StringValue.
func serveGRPC(port string) error {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	return grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(new(emptypb.Empty)); err != nil {
			return err
		}
		return stream.SendMsg(wrapperspb.String(called(stream.Context(), port)))
	})).Serve(l)
}

// called is the answer to a call.
func called(ctx context.Context, port string) string {
	header, _ := metadata.FromIncomingContext(ctx)
	lines := []string{"ServicePort=" + port, "Host=" + strings.Join(header.Get(":authority"), ","), "Proto=GRPC"}
	if from, ok := peer.FromContext(ctx); ok {
		lines = append(lines, "IP="+host(from.Addr.String()))
	}
	delete(header, ":authority")
	return answer(lines, header)
}

// serveTCP sends back what it receives at a port.
func serveTCP(port string) error {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c) // the client ends it
		}()
	}
}

// answer adds to the lines of a request this pod's name, and a line for each value of its headers.
func answer(lines []string, header map[string][]string) string {
	lines = append([]string{"Hostname=" + cmp.Or(os.Getenv("HOSTNAME"), "unknown")}, lines...)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			lines = append(lines, "RequestHeader="+name+":"+value)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// host is an address without its port.
func host(address string) string {
	h, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return h
}
