package check

import (
	"net/http"
	"sync"
	"time"
)

// Clock is a transport of HTTP that compares the server's clock, as answers have it in their Date, with this machine's.
type Clock struct {
	Next http.RoundTripper

	mu    sync.Mutex
	known bool
	ahead time.Duration // of this machine's clock; Date has whole seconds
}

// RoundTrip implements http.RoundTripper.
func (c *Clock) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.Next.RoundTrip(r)
	if err == nil {
		c.note(resp.Header.Get("Date"), time.Now())
	}
	return resp, err
}

func (c *Clock) note(date string, now time.Time) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.ahead = true, at.Sub(now)
}

// Ahead returns how far the server's clock is ahead of this machine's; false: no answer had a date.
func (c *Clock) Ahead() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead, c.known
}

// mostDrift is how far clocks may differ: certificates are valid from one minute before they are made, tokens from the moment on.
const mostDrift = 10 * time.Second

// clock judges a clock.
func (r *results) clock(whose string, c *Clock) {
	ahead, known := c.Ahead()
	if !known {
		return
	}
	off := ahead.Round(time.Second)
	if off.Abs() <= mostDrift {
		r.ok("clock of "+whose, "it differs from this machine's by less than %s", mostDrift)
		return
	}
	than := "ahead of"
	if off < 0 {
		than = "behind"
	}
	r.add(Failed, "clock of "+whose, off.Abs().String()+" "+than+" this machine's",
		"set both by NTP (timedatectl): certificates and tokens of one clock are not valid yet, or no longer, by the other")
}
