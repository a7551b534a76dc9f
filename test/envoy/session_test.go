package envoy

import (
	"fmt"
	"net/http"
	"testing"

	"fairway/test/envoy/live"
)

// session sends requests of 20 clients, five each. What the first answer of a client says in a header, or in a cookie, is in its other
// requests: they meet one backend. All clients together meet more.
func (s *script) session(t testing.TB, args []string) error {
	header := args[0]
	met := map[string]bool{}
	for range 20 {
		r, _, err := s.request(append(args[1:len(args):len(args)], "->"))
		if err != nil {
			return err
		}
		first := live.Send(t, r)
		name, value := header, first.Header.Get(header)
		if header == "cookie" {
			cookie, err := http.ParseSetCookie(first.Header.Get("set-cookie"))
			if err != nil {
				return fmt.Errorf("set-cookie is %q: %w", first.Header.Get("set-cookie"), err)
			}
			value = cookie.Name + `="` + cookie.Value + `"`
		}
		if value == "" {
			return fmt.Errorf("the answer %v has no %s", first.Header, header)
		}
		met[first.Echo.Server] = true
		for range 4 {
			if again := live.Send(t, with(r, name, value)); again.Echo.Server != first.Echo.Server {
				return fmt.Errorf("a client of %s met %q (status %d), with %s: %s",
					first.Echo.Server, again.Echo.Server, again.Status, name, value)
			}
		}
	}
	if len(met) < 2 {
		return fmt.Errorf("20 clients met %v alone", met)
	}
	return nil
}
