passwd after=files privacyidea
group after=files privacyidea
