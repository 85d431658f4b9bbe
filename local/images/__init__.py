"""Images of the local cluster, made without a registry: one table, one builder."""

from local.images.build import build_images, images_for, local_image_names, programs_needed
from local.images.oci import image_digest

__all__ = ["build_images", "image_digest", "images_for", "local_image_names", "programs_needed"]
