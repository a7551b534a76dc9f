package eureka

import (
	"errors"
	"fmt"
	"time"

	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/source/platform"
)

// Options of a Source. urls are those of Eureka servers, which are each other's peers, as https://host:8761/eureka.
type Options struct {
	platform.Naming
	servers.Reach
	platform.Limits
	// Missing says how long a missing instance stays, unless a server said that it left; empty: 90s, which is how long Eureka keeps a
	// silent instance.
	platform.Missing

	// Refresh is how often servers are asked what changed, as "5s": from 100ms to 1h; empty: "30s", as Eureka's own clients have it.
	Refresh string `json:"refresh,omitempty"`
	// Services says what a service is: "app" (or empty): an application; "vip": a virtual address. Then an instance serves its
	// vipAddress with its port, and its secureVipAddress with its secure port; each may be several, comma separated.
	Services string `json:"services,omitempty"`
	// Region is the region of instances that say none; empty: the region of their availability zone, if they run at
	// Amazon's.
	Region string `json:"region,omitempty"`
}

// Values of Options.Services.
const (
	byApp = "app"
	byVIP = "vip"
)

const (
	defaultRefresh = 30 * time.Second
	leastRefresh   = 100 * time.Millisecond
	mostRefresh    = time.Hour
	defaultKeep    = 90 * time.Second
	maxRegion      = 128 // bytes
)

// Validate returns every mistake as an error, each by its field.
func (o Options) Validate() error {
	errs := []error{o.Naming.Validate(), o.Reach.Validate(), o.Limits.Validate(), o.Missing.Validate()}
	if _, err := o.refresh(); err != nil {
		errs = append(errs, err)
	}
	if o.Services != "" && o.Services != byApp && o.Services != byVIP {
		errs = append(errs, fmt.Errorf("services: %q; want app or vip", printable.Text(o.Services, printable.Short)))
	}
	if !printable.Is(o.Region, maxRegion) {
		errs = append(errs, fmt.Errorf("region: %q is not a name", printable.Text(o.Region, printable.Short)))
	}
	return errors.Join(errs...)
}

func (o Options) refresh() (time.Duration, error) {
	return between("refresh", o.Refresh, defaultRefresh, leastRefresh, mostRefresh)
}

func between(field, text string, otherwise, least, most time.Duration) (time.Duration, error) {
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		return 0, fmt.Errorf("%s: %q; want a duration from %s to %s", field, printable.Text(text, printable.Short), least, most)
	}
	return d, nil
}
