// Command extender is a reference server for the extenders of Berth. It excludes clusters whose
// label "maintenance" is "true", and prefers cheap ones: the score is 100 minus the claim
// "price.example.com" in cents per hour. docs/extenders.md describes the protocol.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"math"
	"net/http"
	"strconv"
	"time"
)

// request has the fields that this server reads of a request.
type request struct {
	Clusters []struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
		Claims map[string]string `json:"claims"`
	} `json:"clusters"`
}

type answer struct {
	Score    *float64 `json:"score,omitempty"`
	Excluded bool     `json:"excluded,omitempty"`
	Reason   string   `json:"reason,omitempty"`
}

func decide(w http.ResponseWriter, r *http.Request) {
	var asked request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<20)).Decode(&asked); err != nil {
		http.Error(w, "the request is not valid JSON", http.StatusBadRequest)
		return
	}
	answers := make(map[string]answer, len(asked.Clusters))
	for _, c := range asked.Clusters {
		a := answer{}
		if c.Labels["maintenance"] == "true" {
			a.Excluded, a.Reason = true, "in maintenance"
		} else if price, err := strconv.ParseFloat(c.Claims["price.example.com"], 64); err == nil && !math.IsNaN(price) {
			score := min(max(100-price, -100), 100)
			a.Score = &score
		}
		answers[c.Name] = a
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(map[string]any{"clusters": answers}); err != nil {
		log.Print(err)
	}
}

func main() {
	address := flag.String("listen", ":8443", "address to listen on")
	cert, key := flag.String("cert", "tls.crt", "certificate"), flag.String("key", "tls.key", "key of the certificate")
	flag.Parse()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/decide", decide)
	server := &http.Server{Addr: *address, Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServeTLS(*cert, *key))
}
