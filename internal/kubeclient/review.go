package kubeclient

import (
	"context"
	"encoding/json"
	"net/http"

	"k8s.io/client-go/rest"
)

// Right is what a user wants to do.
type Right struct {
	Verb        string `json:"verb"`
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"` // empty: all, or a resource that is in none
}

// review is a SelfSubjectAccessReview.
type review struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Spec       reviewSpec   `json:"spec"`
	Status     reviewStatus `json:"status,omitzero"`
}

type reviewSpec struct {
	Right Right `json:"resourceAttributes"`
}

type reviewStatus struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
}

// May asks the API server whether the client's user has a right. The reason is the API server's, and may be empty.
func (c *Clients) May(ctx context.Context, r Right) (allowed bool, reason string, err error) {
	const group = "authorization.k8s.io/v1"
	body, err := json.Marshal(review{APIVersion: group, Kind: "SelfSubjectAccessReview", Spec: reviewSpec{r}})
	if err != nil {
		return false, "", err
	}
	text, err := c.Do(ctx, http.MethodPost, "/apis/"+group+"/selfsubjectaccessreviews", nil, body)
	var out review
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out.Status.Allowed, out.Status.Reason, err
}

// Through returns the clients of an API server. Their requests pass through a transport that wrap puts around another.
func Through(config *rest.Config, wrap func(http.RoundTripper) http.RoundTripper) (*Clients, error) {
	config = rest.CopyConfig(config)
	config.Wrap(wrap)
	return Open(config)
}
