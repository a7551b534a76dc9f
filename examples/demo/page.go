package main

import (
	"context"
	"encoding/json"
	"fmt"
)

// page is an answer of the bookshop.
type page struct {
	Service string `json:"service"`
	Version string `json:"version"`
	Status  int    `json:"status"`
	Error   string `json:"error"`
	Reviews *page  `json:"reviews"`
	Ratings *page  `json:"ratings"`
}

// visit asks for the product page through the gateway.
func (w *world) visit(ctx context.Context, headers map[string]string) (page, error) {
	var p page
	body, status, err := fetch(ctx, w.http(w.ports.gateway, "/productpage"), headers)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return p, fmt.Errorf("status %d: %.200s", status, body)
	}
	return p, nil
}

// reviews returns the version of reviews that served the page, or "" if the page has no reviews.
func (p page) reviews() string {
	if p.Reviews == nil || p.Reviews.Status != 200 {
		return ""
	}
	return p.Reviews.Version
}

// ratings returns the status that reviews got from ratings, or 0 if it did not ask ratings.
func (p page) ratings() int {
	if p.Reviews == nil || p.Reviews.Ratings == nil {
		return 0
	}
	return p.Reviews.Ratings.Status
}

// visits makes n visits one after the other and counts the pages by key.
func (w *world) visits(ctx context.Context, n int, headers map[string]string, key func(page) string) (map[string]int, error) {
	counts := map[string]int{}
	for range n {
		p, err := w.visit(ctx, headers)
		if err != nil {
			return nil, err
		}
		counts[key(p)]++
	}
	return counts, nil
}
