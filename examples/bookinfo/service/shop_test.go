package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func instance(t *testing.T, role, version, upstreamURL, fail string) *httptest.Server {
	t.Helper()
	f, err := parseFailures(fail)
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{role: role, version: version, upstream: upstream{strings.TrimPrefix(upstreamURL, "http://")}, failures: f}
	h, err := s.handler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

func get(t *testing.T, url, header, value string) answer {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if header != "" {
		r.Header.Set(header, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var a answer
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil || a.Status != resp.StatusCode {
		t.Fatalf("answer %+v with status %d: %v", a, resp.StatusCode, err)
	}
	return a
}

func TestChainNamesEveryVersion(t *testing.T) {
	ratings := instance(t, "ratings", "v1", "", "0/1")
	reviews := instance(t, "reviews", "v2", ratings.URL, "0/1")
	page := get(t, instance(t, "productpage", "v1", reviews.URL, "0/1").URL, "", "")
	if page.Reviews == nil || page.Reviews.Version != "v2" || page.Reviews.Ratings == nil || page.Reviews.Ratings.Stars != 5 {
		t.Errorf("page %+v", page)
	}
	if v1 := get(t, instance(t, "reviews", "v1", ratings.URL, "0/1").URL, "", ""); v1.Ratings != nil {
		t.Errorf("reviews v1 asked for ratings: %+v", v1)
	}
}

func TestHeadersTravel(t *testing.T) {
	var user, host string
	last := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, host = r.Header.Get("end-user"), r.Host
		http.Error(w, "fault filter abort", http.StatusTeapot)
	}))
	defer last.Close()
	a := get(t, instance(t, "reviews", "v3", last.URL, "0/1").URL, "end-user", "jason")
	if user != "jason" || host != "ratings" {
		t.Errorf("ratings was asked for by user %q as host %q", user, host)
	}
	if a.Ratings.Status != http.StatusTeapot || a.Ratings.Error != "fault filter abort" || a.Status != http.StatusOK {
		t.Errorf("answer %+v of %+v", a, a.Ratings)
	}
}

func TestFailsAsTold(t *testing.T) {
	url := instance(t, "ratings", "v1", "", "2/3").URL
	var got []int
	for range 6 {
		got = append(got, get(t, url, "", "").Status)
	}
	for i, want := range []int{503, 503, 200, 503, 503, 200} {
		if got[i] != want {
			t.Fatalf("statuses %v", got)
		}
	}
	for _, bad := range []string{"", "1", "2/1", "0/0", "x/y"} {
		if _, err := parseFailures(bad); err == nil {
			t.Errorf("--fail %q is taken", bad)
		}
	}
	if _, err := (&shop{role: "cart"}).handler(); err == nil {
		t.Error("role cart is taken")
	}
}
