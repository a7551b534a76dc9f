package eurekaserver_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"fairway/test/platform/registry/eurekaserver"
	"fairway/test/rig"
)

// TestServer: what the package says of the server is so.
func TestServer(t *testing.T) {
	s := eurekaserver.Start(t, eurekaserver.Options{})
	s.Register(t, eurekaserver.Instance{App: "WEB", ID: "a", Address: "10.0.0.1", Port: 80})
	s.Override(t, "WEB", "a", "OUT_OF_SERVICE")
	if err := s.Renew(t, "WEB", "a"); err != nil {
		t.Error(err)
	}
	rig.Eventually(t, func() error {
		if all := s.Apps(t, "/apps"); !strings.Contains(all, "OUT_OF_SERVICE_1_") || !strings.Contains(all, "10.0.0.1") {
			return fmt.Errorf("it says %s", all)
		}
		return nil
	})
	s.Kill()
	s.Run(t)
	var refused *eurekaserver.Refused
	if err := s.Renew(t, "WEB", "a"); !errors.As(err, &refused) || refused.Code != http.StatusNotFound {
		t.Errorf("after a restart it answers %v, want that it knows nothing", err)
	}
}
