package identity

import (
	"bufio"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// stats returns an Envoy's statistics with names that match a regular expression.
func stats(t *testing.T, admin, filter string) map[string]int64 {
	t.Helper()
	resp, err := http.Get(admin + "/stats?filter=" + url.QueryEscape(filter))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out := map[string]int64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), ": ")
		if n, err := strconv.ParseInt(value, 10, 64); ok && err == nil {
			out[name] = n
		}
	}
	return out
}
