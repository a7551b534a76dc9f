package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// upstream is the address for requests to other services: a sidecar's outbound address, or a service itself.
type upstream struct{ address string }

// propagated are the request headers that travel along a chain of calls: the user's name, headers that the example's rules match,
// and those of traces.
var propagated = [...]string{
	"end-user",
	"x-demo",
	"x-request-id",
	"traceparent",
	"tracestate",
	"b3",
	"x-b3-traceid",
	"x-b3-spanid",
	"x-b3-parentspanid",
	"x-b3-sampled",
}

// ask sends a request for service, and passes on the caller's headers. Errors are in the answer.
func (u upstream) ask(from *http.Request, service string) *answer {
	failed := func(status int, what any) *answer {
		return &answer{Service: service, Status: status, Error: strings.TrimSpace(fmt.Sprint(what))}
	}
	request, err := http.NewRequestWithContext(from.Context(), http.MethodGet, "http://"+u.address+"/", nil)
	if err != nil {
		return failed(http.StatusInternalServerError, err)
	}
	request.Host = service // the sidecar routes by it, as it would by the name that a client looked up
	for _, name := range propagated {
		if value := from.Header.Get(name); value != "" {
			request.Header.Set(name, value)
		}
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return failed(http.StatusBadGateway, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return failed(http.StatusBadGateway, err)
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil || a.Service == "" {
		return failed(response.StatusCode, string(body)) // the proxy's own words
	}
	return &a
}
