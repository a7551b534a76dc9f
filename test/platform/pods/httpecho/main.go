// Command httpecho stands for the image hashicorp/http-echo in tests: it answers each request with a text.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	text := flag.String("text", "", "the answer")
	listen := flag.String("listen", ":5678", "where it listens")
	flag.Parse()
	server := http.Server{
		Addr: *listen, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, *text) }),
	}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}
