"""An EKS cluster and what it stands on, from an empty account; one concern a file."""
